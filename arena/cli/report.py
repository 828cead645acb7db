"""`arena report` and `arena mocks generate`: what can be made of finished results."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from arena import settings
from arena.cli.options import DEFAULT_STATE, Namespace, State, state_directory
from arena.cli.screen import print_warning
from arena.errors import UsageError
from foundation.files import replace_file
from gitops.content import ContentVolume


class ReportFormat(StrEnum):
    """What results are made into."""

    HTML = "html"
    CSV = "csv"
    PARQUET = "parquet"
    GITHUB = "github"


class Rows(StrEnum):
    """What a row of a table is."""

    ITEMS = "items"
    CHECKS = "checks"


Results = Annotated[str, typer.Argument(help="Folder of results (`arena eval --out`), or name of a run of this installation.", metavar="RESULTS")]


def _out(variable: str) -> Any:
    return typer.Option("--out", envvar=variable, show_default="stdout", help="File to write, whole or not at all.")


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("report")(report)
    mocks = typer.Typer(help="Answers of a mock provider.")
    mocks.callback()(_mocks)
    mocks.command("generate")(generate)
    app.add_typer(mocks, name="mocks")


def _mocks() -> None:
    """Answers of a mock provider."""


def report(
    results: Results,
    *,
    format_: Annotated[ReportFormat, typer.Option("--format", "-f", envvar=settings.REPORT_FORMAT, help="What to make.")] = ReportFormat.HTML,
    rows: Annotated[Rows, typer.Option("--rows", envvar=settings.REPORT_ROWS, help="What a row of csv and parquet is.")] = Rows.ITEMS,
    out: Annotated[Path | None, _out(settings.REPORT_OUT)] = None,
    namespace: Namespace = "default",
    state: State = DEFAULT_STATE,
) -> None:
    """Make a page, a table or workflow annotations of finished results."""
    directory = _directory(results, namespace, state)
    if out is None and format_ is ReportFormat.PARQUET and sys.stdout.isatty():
        raise UsageError("cannot print Parquet on a terminal", hint="name a file with --out")
    with _output(out) as stream:
        _write(directory, format_, rows, stream)


def _write(directory: Path, format_: ReportFormat, rows: Rows, stream: BinaryIO) -> None:
    from engine.results.reader import read_failed_items, read_items, read_summary  # noqa: PLC0415 - only here

    if format_ is ReportFormat.HTML:
        from engine.results.page import write_page  # noqa: PLC0415 - brings the template engine

        write_page(stream, read_summary(directory), read_items(directory))
    elif format_ is ReportFormat.GITHUB:
        from engine.results.github import annotations  # noqa: PLC0415 - only here

        stream.writelines(f"{line}\n".encode() for line in annotations(read_failed_items(directory), lambda _scenario: None))
    else:
        from engine.results.tables import check_table, item_table, write_csv  # noqa: PLC0415 - only here

        table = (item_table if rows is Rows.ITEMS else check_table)(read_items(directory))
        if format_ is ReportFormat.CSV:
            write_csv(stream, table)
        else:
            from engine.results.parquet import write_parquet  # noqa: PLC0415 - brings pyarrow

            write_parquet(stream, table)


def generate(
    results: Results,
    *,
    provider: Annotated[str, typer.Option("--provider", envvar=settings.PROVIDER, show_default="the only one", help="Whose answers to take.")] = "",
    out: Annotated[Path | None, _out(settings.MOCKS_OUT)] = None,
    namespace: Namespace = "default",
    state: State = DEFAULT_STATE,
) -> None:
    """Write a mock's answers that repeat what a provider said: for `--mock-config`, or a mock provider's mock_config."""
    from engine.results.mock_answers import answers_of  # noqa: PLC0415 - only here
    from engine.results.reader import read_items  # noqa: PLC0415 - same

    answers = answers_of(read_items(_directory(results, namespace, state)), provider=provider)
    for reason in answers.left_out:
        print_warning(f"left out {reason}")
    with _output(out) as stream:
        stream.write(answers.to_yaml().encode())


def _directory(results: str, namespace: str, state: Path) -> Path:
    """Return the folder that a person named, or that of a run's results."""
    named = Path(results)
    if named.is_dir():
        return named
    if named.name == results:
        directory = ContentVolume(state_directory(state).content).run(namespace, results)
        if directory.is_dir():
            return directory
    raise UsageError(
        f"cannot find results '{results}'", hint="name a folder that `arena eval --out` wrote, or a run that has ended; `arena runs` lists them"
    )


@contextmanager
def _output(out: Path | None) -> Iterator[BinaryIO]:
    """Yield where to write: stdout, or a file that appears when all is written."""
    if out is None:
        buffer = io.BytesIO()
        yield buffer
        sys.stdout.buffer.write(buffer.getvalue())
        sys.stdout.buffer.flush()
        return
    try:
        with replace_file(out) as stream:
            yield stream
    except OSError as error:
        raise UsageError(f"cannot write '{out}': {error.strerror or error}", hint="name a file in a folder that can be written") from error
