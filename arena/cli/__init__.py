"""The command line: one module a subject, imported only when one of its commands is named.

Owns what every command shares: how errors are shown, and the exit code. Data goes to stdout, everything else to stderr.
"""

import importlib
import sys
from collections.abc import Sequence

from arena.cli.screen import print_error
from foundation.errors import ArenaError

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

COMMANDS = {
    "up": "arena.cli.server",
    "doctor": "arena.cli.doctor",
    "git-credential": "arena.cli.credential",
    "worker": "arena.cli.worker",
    "demo": "arena.cli.demo",
    "init": "arena.cli.bundles",
    "validate": "arena.cli.bundles",
    "eval": "arena.cli.evaluate",
    "apply": "arena.cli.resources",
    "get": "arena.cli.resources",
    "describe": "arena.cli.resources",
    "delete": "arena.cli.resources",
    "run": "arena.cli.runs",
    "runs": "arena.cli.runs",
    "show": "arena.cli.runs",
    "logs": "arena.cli.runs",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that the arguments name and exit with its code.

    Exit codes (resources.md, "Words of a verdict"): 0 pass, 1 fail, 2 usage, bundle or configuration, 3 error or cancelled.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        sys.exit(_run(words))
    except ArenaError as error:
        print_error(error)
        sys.exit(EXIT_USAGE)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)


def _run(words: list[str]) -> int:
    import typer  # noqa: PLC0415 - `arena worker` and its like start without it

    app = typer.Typer(
        name="arena",
        help="From a push to a verdict: LLM evaluation as a GitOps loop.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_arena)
    named = next((word for word in words if not word.startswith("-")), "")
    modules = [COMMANDS[named]] if named in COMMANDS else dict.fromkeys(COMMANDS.values())
    for module in modules:
        importlib.import_module(module).register(app)
    code = app(words, standalone_mode=False)
    return code if isinstance(code, int) else 0


def _arena() -> None:
    """From a push to a verdict: LLM evaluation as a GitOps loop."""
