"""Options that several commands share, each with its environment variable and its default."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from arena.local.state import StateDirectory

DEFAULT_STATE = Path("~/.arena")

State = Annotated[Path, typer.Option("--state", envvar="ARENA_STATE", show_default=True, help="State directory of the local installation.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", envvar="ARENA_NAMESPACE", show_default=True, help="Namespace of the objects.")]


class Format(StrEnum):
    """How objects are printed."""

    TABLE = "table"
    WIDE = "wide"
    YAML = "yaml"
    JSON = "json"
    NAME = "name"


Output = Annotated[Format, typer.Option("--output", "-o", envvar="ARENA_OUTPUT_FORMAT", show_default=True, help="How to print.")]


def state_directory(path: Path) -> StateDirectory:
    """Return the state directory that an option names."""
    return StateDirectory(path.expanduser().absolute())
