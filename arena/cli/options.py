"""Options that several commands share, each with its environment variable and its default."""

import ipaddress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from arena import settings
from arena.errors import UsageError
from arena.local.state import StateDirectory

DEFAULT_STATE = Path("~/.arena")


def flag(*names: str, envvar: str, help_text: str) -> Any:
    """Return a switch that is off unless it is named; typer itself shows no default for such a one."""
    return typer.Option(*names, envvar=envvar, show_default="off", help=help_text)


State = Annotated[Path, typer.Option("--state", envvar=settings.STATE, help="State directory of the local installation.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", envvar=settings.NAMESPACE, help="Namespace of the objects.")]
Mock = Annotated[bool, flag("--mock-provider", envvar=settings.MOCK_PROVIDER, help_text="Replace every provider by the mock.")]

AllowNetwork = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-network",
        envvar=settings.ALLOW_NETWORK,
        metavar="CIDR",
        show_default="public addresses only",
        help="Private network that remotes of external projects may be in; may be repeated.",
    ),
]


class Format(StrEnum):
    """How objects are printed."""

    TABLE = "table"
    WIDE = "wide"
    YAML = "yaml"
    JSON = "json"
    NAME = "name"


Output = Annotated[Format, typer.Option("--output", "-o", envvar=settings.OUTPUT, help="How to print.")]


def state_directory(path: Path) -> StateDirectory:
    """Return the state directory that an option names."""
    return StateDirectory(path.expanduser().absolute())


def network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Read one network. An address with bits beyond the mask is refused: it would allow more than was written.

    Raises:
        UsageError: it is none.
    """
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise UsageError(f"cannot allow network '{text}': {error}", hint="write it as 10.20.0.0/16 or fd00:1::/64") from error


def of_namespace(name: str) -> str:
    """Return what a command that is shown for copying needs to find an object of the namespace: nothing for the default one."""
    return "" if name == "default" else f" -n {name}"
