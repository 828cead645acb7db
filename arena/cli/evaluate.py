"""`arena eval PATH`: a bundle from disk, in this process, without a server."""

import asyncio
import io
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import settings
from arena.cli.options import AllowNetwork, Mock, OwnCode, OwnCodeNetwork, OwnCodeUnconfined, own_permissions
from arena.cli.outcome import EXIT_ERROR, EXIT_FAIL, EXIT_PASS
from arena.cli.screen import print_warning
from arena.errors import UsageError

if TYPE_CHECKING:
    from arena.evaluation import Evaluation

_DEFAULT_CONCURRENCY = 16
_EXIT_CODES = {"pass": EXIT_PASS, "fail": EXIT_FAIL, "error": EXIT_ERROR, "cancelled": EXIT_ERROR}


class EvalFormat(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    GITHUB = "github"


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("eval")(evaluate)


_Scenarios = Annotated[
    list[str],
    typer.Option("--scenario", envvar=settings.SCENARIO, show_default="all", help="Only these scenarios; comma lists and repeats are taken."),
]
_Providers = Annotated[
    list[str],
    typer.Option("--provider", envvar=settings.PROVIDER, show_default="all", help="Only these providers; comma lists and repeats are taken."),
]
_Trials = Annotated[
    int | None,
    typer.Option("--trials", envvar=settings.TRIALS, min=1, show_default="the scenario's", help="Repetitions of each scenario and provider."),
]
_MockConfig = Annotated[
    Path | None, typer.Option("--mock-config", envvar=settings.MOCK_CONFIG, show_default="each provider's own", help="The mock's answers.")
]
_Out = Annotated[
    Path | None,
    typer.Option("--out", envvar=settings.OUT, show_default="none", help="Folder to write results.jsonl, summary.json, junit.xml and report.md to."),
]


def evaluate(  # noqa: PLR0913 - one parameter an option
    path: Annotated[Path, typer.Argument(help="Folder of the bundle, or its arena config file.", metavar="PATH")] = Path(),
    *,
    scenario: _Scenarios = [],  # noqa: B006 - typer reads the default, nobody changes it
    provider: _Providers = [],  # noqa: B006 - same
    trials: _Trials = None,
    mock_provider: Mock = False,
    mock_config: _MockConfig = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", envvar=settings.JOBS, min=1, help="Items in flight.")] = _DEFAULT_CONCURRENCY,
    out: _Out = None,
    allow_code: OwnCode = False,
    allow_code_network: OwnCodeNetwork = False,
    allow_code_unconfined: OwnCodeUnconfined = False,
    allow_network: AllowNetwork = None,
    output: Annotated[
        EvalFormat, typer.Option("--output", "-o", envvar=settings.EVAL_OUTPUT, help="How to print; github adds annotations and a step summary.")
    ] = EvalFormat.TABLE,
) -> int:
    """Run a bundle from disk; exit 0 pass, 1 fail, 2 bundle or usage, 3 error."""
    from arena.evaluation import Evaluation, EvaluationRequest  # noqa: PLC0415 - the engine, only when it is needed

    root, arena_file = locate(path)
    request = EvaluationRequest(
        root=root,
        arena_file=arena_file,
        scenarios=_words("--scenario", scenario),
        providers=_words("--provider", provider),
        trials=trials,
        mock=_mock(mock_config, root, wanted=mock_provider),
        concurrency=jobs,
        permissions=own_permissions(allow_network, code=allow_code, network_too=allow_code_network, unconfined=allow_code_unconfined),
    )
    with Evaluation(request) as evaluation:
        for warning in evaluation.warnings:
            print_warning(warning)
        asyncio.run(evaluation.run())
        if out is not None:
            evaluation.results.write_files(out)
        if output is EvalFormat.JSON:
            evaluation.results.write_document(sys.stdout.buffer)
            sys.stdout.buffer.flush()
        else:
            if output is EvalFormat.GITHUB:
                _annotate(evaluation)
            from arena.cli.eval_table import write_table  # noqa: PLC0415 - not for JSON

            write_table(evaluation, sys.stdout)
        return _EXIT_CODES[evaluation.results.summary().verdict.value]


def _annotate(evaluation: "Evaluation") -> None:
    """Print failed items as annotations of a GitHub workflow, and append the report to the step's summary."""
    from engine.results.github import annotations, append_step_summary  # noqa: PLC0415 - only for workflows
    from engine.results.reader import FAILED, items_of  # noqa: PLC0415 - same

    scenarios, here = evaluation.bundle.scenarios, settings.github_workspace()

    def place(scenario: str) -> tuple[str, int] | None:
        if scenario not in scenarios:
            return None
        location = scenarios[scenario].location
        return os.path.relpath(evaluation.bundle.root / location.file, here), location.line

    sys.stdout.writelines(f"{line}\n" for line in annotations(items_of(evaluation.results.lines(), FAILED), place))
    if summary := settings.github_step_summary():
        report = io.BytesIO()
        evaluation.results.write_report(report)
        append_step_summary(summary, report.getvalue())


def locate(path: Path) -> tuple[Path, str]:
    """Return a bundle's folder and its arena config file, relative to it.

    A config file below the current folder belongs to the bundle that the current folder is, as in a run, whose bundle is the whole repository.

    Raises:
        UsageError: there is no such file or folder.
    """
    if path.is_dir():
        return path.absolute(), "config.arena.yaml"
    if path.is_file():
        here, file = Path.cwd(), path.absolute()
        return (here, str(file.relative_to(here))) if file.is_relative_to(here) else (file.parent, file.name)
    raise UsageError(f"cannot find bundle '{path}'", hint="name the folder of a bundle, or its arena config file; `arena init DIR` makes one")


def _words(option: str, lists: Sequence[str]) -> tuple[str, ...]:
    words = tuple(word.strip() for text in lists for word in text.split(",") if word.strip())
    if lists and not words:
        raise UsageError(f"cannot use {option}: it names nothing", hint="leave it out to run all")
    return words


def _mock(config: Path | None, root: Path, *, wanted: bool) -> str | None:
    """Return None without the mock, "" for each provider's own answers, or the absolute path of the answers.

    A relative path is looked for where the command was typed, then in the bundle.
    """
    if config is not None and not wanted:
        raise UsageError("cannot use --mock-config without --mock-provider", hint="add --mock-provider")
    if config is None:
        return "" if wanted else None
    for candidate in (config.absolute(), root / config):
        if candidate.is_file():
            return str(candidate)
    raise UsageError(f"cannot find mock config '{config}'", hint="name a file that exists, relative to here or to the bundle")
