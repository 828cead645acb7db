"""Options that several commands share, each with its environment variable and its default."""

import ipaddress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from arena import settings
from arena.errors import UsageError
from arena.local.state import StateDirectory
from engine.permissions import Code, Grants, Permissions

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
        help="Private network that remotes of external projects, and what bundles call, may be in; may be repeated.",
    ),
]


def _projects(flag: str, envvar: str, help_text: str) -> Any:
    return typer.Option(flag, envvar=envvar, metavar="NAMESPACE/PROJECT", show_default="none", help=f"{help_text}; may be repeated.")


AllowCode = Annotated[
    list[str] | None, _projects("--allow-code", settings.ALLOW_CODE, "Project whose own programs (exec tools, MCP servers, evals) may run, confined")
]
AllowCodeNetwork = Annotated[
    list[str] | None, _projects("--allow-code-network", settings.ALLOW_CODE_NETWORK, "Project whose programs may run and use the network")
]
AllowCodeUnconfined = Annotated[
    list[str] | None,
    _projects("--allow-code-unconfined", settings.ALLOW_CODE_UNCONFINED, "Project whose programs may run even where they cannot be confined"),
]


OwnCode = Annotated[
    bool,
    flag("--allow-code", envvar=settings.EVAL_ALLOW_CODE, help_text="Let the bundle's own programs (exec tools, MCP servers, evals) run, confined."),
]
OwnCodeNetwork = Annotated[
    bool, flag("--allow-code-network", envvar=settings.EVAL_ALLOW_CODE_NETWORK, help_text="Let its programs run and use the network.")
]
OwnCodeUnconfined = Annotated[
    bool,
    flag("--allow-code-unconfined", envvar=settings.EVAL_ALLOW_CODE_UNCONFINED, help_text="Let its programs run even where they cannot be confined."),
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


def grants(
    allow_code: list[str] | None, allow_code_network: list[str] | None, allow_code_unconfined: list[str] | None, allow_network: list[str] | None
) -> Grants:
    """Return what the options let projects do.

    Raises:
        UsageError: one names no project, or no network.
    """
    for name in (*(allow_code or ()), *(allow_code_network or ()), *(allow_code_unconfined or ())):
        if len([part for part in name.split("/") if part]) != 2 or name.count("/") != 1:  # noqa: PLR2004 - namespace and project
            raise UsageError(f"cannot allow code of '{name}': it is not NAMESPACE/PROJECT", hint="such as --allow-code default/support")
    networks = tuple(str(network(text)) for text in allow_network or ())
    return Grants(frozenset(allow_code or ()), frozenset(allow_code_network or ()), frozenset(allow_code_unconfined or ()), networks)


def own_permissions(allow_network: list[str] | None, *, code: bool, network_too: bool, unconfined: bool) -> Permissions:
    """Return what the options let a bundle on this disk do; each switch for code implies the one before it.

    Raises:
        UsageError: one names no network.
    """
    confinement: Code = "unconfined" if unconfined else "confined" if code or network_too else ""
    return Permissions(confinement, network_too, tuple(str(network(text)) for text in allow_network or ()))


def of_namespace(name: str) -> str:
    """Return what a command that is shown for copying needs to find an object of the namespace: nothing for the default one."""
    return "" if name == "default" else f" -n {name}"
