"""`arena eval PATH`: a bundle from disk, in this process, without a server."""

import asyncio
import io
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import settings
from arena.cli import EXIT_INTERRUPTED
from arena.cli.options import AllowNetwork, Mock, OwnCode, OwnCodeNetwork, OwnCodeUnconfined, own_permissions
from arena.cli.outcome import EXIT_ERROR, EXIT_FAIL, EXIT_PASS
from arena.cli.screen import print_warning
from arena.cli.selecting import (
    DEFAULT_CONCURRENCY,
    BundlePath,
    Jobs,
    MockConfig,
    PricesFile,
    Providers,
    Scenarios,
    Selection,
    Trials,
)

if TYPE_CHECKING:
    from arena.evaluation import Evaluation

_EXIT_CODES = {"pass": EXIT_PASS, "fail": EXIT_FAIL, "error": EXIT_ERROR, "cancelled": EXIT_INTERRUPTED}


class EvalFormat(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    GITHUB = "github"


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("eval")(evaluate)


_MediaCache = Annotated[
    Path | None,
    typer.Option(
        "--media-cache", envvar=settings.MEDIA_CACHE, show_default="~/.cache/arena/media", help="Folder that keeps media of addresses, by digest."
    ),
]
_Out = Annotated[
    Path | None,
    typer.Option("--out", envvar=settings.OUT, show_default="none", help="Folder to write results.jsonl, summary.json, junit.xml and report.md to."),
]


def evaluate(  # noqa: PLR0913 - one parameter an option
    path: BundlePath = Path(),
    *,
    scenario: Scenarios = [],  # noqa: B006 - typer reads the default, nobody changes it
    provider: Providers = [],  # noqa: B006 - same
    trials: Trials = None,
    mock_provider: Mock = False,
    mock_config: MockConfig = None,
    jobs: Jobs = DEFAULT_CONCURRENCY,
    prices: PricesFile = None,
    out: _Out = None,
    media_cache: _MediaCache = None,
    allow_code: OwnCode = False,
    allow_code_network: OwnCodeNetwork = False,
    allow_code_unconfined: OwnCodeUnconfined = False,
    allow_network: AllowNetwork = None,
    output: Annotated[
        EvalFormat, typer.Option("--output", "-o", envvar=settings.EVAL_OUTPUT, help="How to print; github adds annotations and a step summary.")
    ] = EvalFormat.TABLE,
) -> int:
    """Run a bundle from disk; exit 0 pass, 1 fail, 2 bundle or usage, 3 error, 130 stopped: ctrl-c and SIGTERM keep the results of what has ended."""
    from arena.evaluation import Evaluation  # noqa: PLC0415 - the engine, only when it is needed

    chosen = Selection(
        path=path,
        scenario=scenario,
        provider=provider,
        trials=trials,
        mock_provider=mock_provider,
        mock_config=mock_config,
        jobs=jobs,
        prices=prices,
    )
    permissions = own_permissions(allow_network, code=allow_code, network_too=allow_code_network, unconfined=allow_code_unconfined)
    with Evaluation(chosen.request(permissions, media_cache or settings.media_folder())) as evaluation:
        for warning in evaluation.warnings:
            print_warning(warning)
        if out is not None:
            from engine.results.files import make_writable  # noqa: PLC0415 - junit and report, only for who wants files

            make_writable(out)
        _run(evaluation)
        try:
            if out is not None:
                evaluation.results.write_files(out)
        finally:  # whoever paid for them sees them, also where they cannot be written
            _print(evaluation, output)
        return _EXIT_CODES[evaluation.results.summary().verdict.value]


def _print(evaluation: "Evaluation", output: EvalFormat) -> None:
    """Write the results to stdout."""
    from arena.cli.eval_table import ended, write_table  # noqa: PLC0415 - the engine, only when it is needed

    if output is EvalFormat.JSON:
        evaluation.results.write_document(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        if evaluation.results.summary().stopped:
            sys.stderr.write(f"{ended(evaluation, sys.stderr)}\n")
        return
    if output is EvalFormat.GITHUB:
        _annotate(evaluation)
    write_table(evaluation, sys.stdout)


def _run(evaluation: "Evaluation") -> None:
    """Run an evaluation: on the faster loop where models are asked over the network, which is worth what it takes to load there."""
    from arena.cli.eval_progress import run_with_progress  # noqa: PLC0415 - the engine, only when it is needed

    running = run_with_progress(evaluation, sys.stderr)
    if not evaluation.asks_models:
        asyncio.run(running)
        return
    import uvloop  # noqa: PLC0415 - as said

    from foundation import many_at_once  # noqa: PLC0415 - as said

    many_at_once.prepare()
    uvloop.run(running)


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
