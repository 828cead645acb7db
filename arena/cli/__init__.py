"""The command line: one module a subject, imported only when one of its commands is named.

Owns what every command shares: how errors are shown, and the exit code. Data goes to stdout, everything else to stderr.
"""

import importlib
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from arena.cli.screen import drop_output, print_error
from arena.errors import UsageError
from foundation.errors import ArenaError, first_failure

EXIT_USAGE = 2
EXIT_DEFECT = 3
"""Something of ours broke: an error, never a verdict."""

EXIT_INTERRUPTED = 130
EXIT_CLOSED_PIPE = 141
"""As of any program that SIGPIPE ends: whoever read us has seen enough, and no verdict was given."""

COMMANDS = {
    "up": "arena.cli.server",
    "demo": "arena.cli.demo",
    "init": "arena.cli.bundles",
    "validate": "arena.cli.bundles",
    "eval": "arena.cli.evaluate",
    "estimate": "arena.cli.estimate",
    "apply": "arena.cli.resources",
    "get": "arena.cli.resources",
    "describe": "arena.cli.resources",
    "delete": "arena.cli.resources",
    "run": "arena.cli.runs",
    "cancel": "arena.cli.runs",
    "runs": "arena.cli.runs",
    "show": "arena.cli.runs",
    "logs": "arena.cli.runs",
    "schema": "arena.cli.bundles",
    "report": "arena.cli.report",
    "mocks": "arena.cli.report",
    "project": "arena.cli.projects",
    "sync": "arena.cli.sync",
    "agent": "arena.cli.agents",
    "hooks": "arena.cli.hooks",
    "doctor": "arena.cli.doctor",
    "backup": "arena.cli.backups",
    "restore": "arena.cli.backups",
    "git-credential": "arena.cli.credential",
    "worker": "arena.cli.worker",
    "controller": "arena.cli.cluster",
    "git-server": "arena.cli.cluster",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that the arguments name and exit with its code.

    Exit codes (resources.md, "Words of a verdict"): 0 pass, 1 fail, 2 usage, bundle or configuration, 3 error or cancelled.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run(words)
        sys.stdout.flush()
    except ArenaError as error:
        print_error(error)
        code = EXIT_USAGE
    except ExceptionGroup as group:
        code = _report_group(group)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        drop_output()
        code = EXIT_CLOSED_PIPE
    except Exception:  # noqa: BLE001 - Python's own exit code for it would read as the verdict "fail"
        traceback.print_exc()
        code = EXIT_DEFECT
    sys.exit(code)


def _report_group(group: ExceptionGroup[Exception]) -> int:
    """Report what a part of the server died of; an error that is none of ours is a defect, and keeps its traceback."""
    ours, rest = group.split(ArenaError)
    if ours is None or rest is not None:
        traceback.print_exception(group)
        return EXIT_DEFECT
    print_error(first_failure(ours))
    return EXIT_USAGE


def _run(words: list[str]) -> int:
    """Run what programs start, and start often, without the parser of the command line: it would take most of their time."""
    match words:
        case ["worker", *options] if options in ([], ["--spare"]):
            _leave_out_rich()
            from arena.cli.worker import spare_worker, worker  # noqa: PLC0415 - only here

            return spare_worker() if options else worker()
        case ["git-credential", "--state", folder, operation]:
            from arena.local.git_credential import answer  # noqa: PLC0415 - only here
            from arena.local.state import StateDirectory  # noqa: PLC0415 - same

            sys.stdout.write(answer(operation, StateDirectory(Path(folder).expanduser().absolute()), sys.stdin))
            return 0
        case ["--version"]:
            from importlib.metadata import version  # noqa: PLC0415 - only here

            sys.stdout.write(f"arena {version('arena-reconciler')}\n")
            return 0
        case _:
            return _parse_and_run(words or ["--help"])


def _leave_out_rich() -> None:
    """Keep structlog from importing rich, as it does where rich is installed: a fifth of a worker's start, for consoles that it never has."""
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]


def _parse_and_run(words: list[str]) -> int:
    import typer.main  # noqa: PLC0415 - `arena worker` starts without it

    app = typer.Typer(name="arena", add_completion=False, pretty_exceptions_enable=False)
    app.callback()(_arena)
    named = next((word for word in words if not word.startswith("-")), "")
    modules = [COMMANDS[named]] if named in COMMANDS else dict.fromkeys(COMMANDS.values())
    for module in modules:
        importlib.import_module(module).register(app)
    # typer carries its own copy of click, whose base of all usage errors has no public name.
    refusal = cast("type[Exception]", typer.BadParameter.__mro__[1])
    command = typer.main.get_command(app)
    try:
        # Not command.main(): it takes a closed pipe for a failure of ours and exits 1.
        with command.make_context("arena", words) as context:
            code = command.invoke(context)
    except refusal as error:
        raise _usage_error(error) from error
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    return code if isinstance(code, int) else 0


def _usage_error(refusal: BaseException) -> UsageError:
    """Put a refusal of the parser into our words."""
    context = getattr(refusal, "ctx", None)
    command = context.command_path if context is not None else "arena"
    said = refusal.format_message() if hasattr(refusal, "format_message") else str(refusal)
    text = said.rstrip(".").replace(": Value error, ", ": ")
    return UsageError(f"cannot run '{command}': {text[:1].lower()}{text[1:]}", hint=f"`{command} --help` shows what it takes")


def _arena() -> None:
    """From a push to a verdict: LLM evaluation as a GitOps loop."""
