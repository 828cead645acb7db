"""What of a bundle from disk is meant: the options that `arena eval` and `arena estimate` share, and what they come to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import settings
from arena.errors import UsageError

if TYPE_CHECKING:
    from arena.evaluation import EvaluationRequest
    from engine.permissions import Permissions
    from engine.providers.prices import Price

DEFAULT_CONCURRENCY = 16

BundlePath = Annotated[Path, typer.Argument(help="Folder of the bundle, or its arena config file.", metavar="PATH")]
Scenarios = Annotated[
    list[str],
    typer.Option("--scenario", envvar=settings.SCENARIO, show_default="all", help="Only these scenarios; comma lists and repeats are taken."),
]
Providers = Annotated[
    list[str],
    typer.Option("--provider", envvar=settings.PROVIDER, show_default="all", help="Only these providers; comma lists and repeats are taken."),
]
Trials = Annotated[
    int | None,
    typer.Option("--trials", envvar=settings.TRIALS, min=1, show_default="the scenario's", help="Repetitions of each scenario and provider."),
]
MockConfig = Annotated[
    Path | None, typer.Option("--mock-config", envvar=settings.MOCK_CONFIG, show_default="each provider's own", help="The mock's answers.")
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", envvar=settings.JOBS, min=1, help="Items in flight.")]
PricesFile = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        envvar=settings.PRICES,
        show_default="the packaged ones",
        help="JSON file of prices by model, in USD for a million tokens, that come before the packaged ones.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The options as they were given."""

    path: Path
    scenario: Sequence[str]
    provider: Sequence[str]
    trials: int | None
    mock_provider: bool
    mock_config: Path | None
    jobs: int
    prices: Path | None

    def request(self, permissions: "Permissions", media_cache: Path | None = None) -> "EvaluationRequest":
        """Return what they ask for.

        Raises:
            UsageError: there is no such bundle or file, an option names nothing, or two do not go together.
            PricesInvalid: the file of prices cannot be read, or an entry is no price.
        """
        from arena.evaluation import EvaluationRequest  # noqa: PLC0415 - the engine, only when it is needed

        root, arena_file = locate(self.path)
        return EvaluationRequest(
            root=root,
            arena_file=arena_file,
            scenarios=words("--scenario", self.scenario),
            providers=words("--provider", self.provider),
            trials=self.trials,
            mock=mock_answers(self.mock_config, root, wanted=self.mock_provider),
            concurrency=self.jobs,
            permissions=permissions,
            prices=own_prices(self.prices),
            media_cache=media_cache,
        )


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


def words(option: str, lists: Sequence[str]) -> tuple[str, ...]:
    """Return the words of comma lists and repeats.

    Raises:
        UsageError: the option is there, and names nothing.
    """
    found = tuple(word.strip() for text in lists for word in text.split(",") if word.strip())
    if lists and not found:
        raise UsageError(f"cannot use {option}: it names nothing", hint="leave it out to run all")
    return found


def mock_answers(config: Path | None, root: Path, *, wanted: bool) -> str | None:
    """Return None without the mock, "" for each provider's own answers, or the absolute path of the answers.

    A relative path is looked for where the command was typed, then in the bundle.

    Raises:
        UsageError: the file is not there, or the mock is not wanted.
    """
    if config is not None and not wanted:
        raise UsageError("cannot use --mock-config without --mock-provider", hint="add --mock-provider")
    if config is None:
        return "" if wanted else None
    for candidate in (config.absolute(), root / config):
        if candidate.is_file():
            return str(candidate)
    raise UsageError(f"cannot find mock config '{config}'", hint="name a file that exists, relative to here or to the bundle")


def own_prices(file: Path | None) -> "Mapping[str, Price]":
    """Return the prices of a file; none without one.

    Raises:
        PricesInvalid: it cannot be read, or an entry is no price.
    """
    if file is None:
        return {}
    from engine.providers.prices import read_prices  # noqa: PLC0415 - only where a file is named

    return read_prices(file)
