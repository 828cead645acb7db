"""docs/cluster.md names every option of the processes of a cluster, with its variable and whose it is, and none that is not there."""

import re
from pathlib import Path

import typer
import typer.main

from arena.cli.cluster import register

DOCUMENT = Path(__file__).parents[2] / "docs" / "cluster.md"
ROW = re.compile(r"\| `(--[a-z-]+)` \| `([A-Z_]+)` \| (both|controller|git-server) \|")
BOTH = frozenset({"controller", "git-server"})


def test_the_table_of_settings() -> None:
    """The table is what the command line takes."""
    app = typer.Typer()
    register(app)
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    taken: dict[tuple[str, str], set[str]] = {}
    for name, command in commands.items():
        for parameter in command.params:
            if parameter.envvar:
                taken.setdefault((parameter.opts[0], parameter.envvar), set()).add(name)
    told = {(option, variable): BOTH if of == "both" else {of} for option, variable, of in ROW.findall(DOCUMENT.read_text(encoding="utf-8"))}
    assert told == taken
