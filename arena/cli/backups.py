"""`arena backup` and `arena restore`: a state directory as one file, and one file as a state directory."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from arena import settings
from arena.cli.options import DEFAULT_STATE, State, flag, state_directory
from arena.cli.screen import counted, print_warning, printable
from foundation.clock import SystemClock


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("backup")(backup)
    app.command("restore")(restore)


def backup(
    file: Annotated[Path, typer.Argument(help="Archive to write; its name ends in .tar, .tar.gz or .tgz.", metavar="FILE")],
    *,
    with_token: Annotated[
        bool,
        flag("--with-token", envvar=settings.WITH_TOKEN, help_text="Keep the token that opens this installation; else a restored one gets another."),
    ] = False,
    state: State = DEFAULT_STATE,
) -> None:
    """Write the installation to a file, while it runs or not: objects with their Secrets, repositories, plans, results, history.

    The queue, snapshots and logs are left out: `arena up` on the restored directory makes the first two again, and every run that was going goes on.
    """
    from arena.local.backup import take_backup  # noqa: PLC0415 - git and the store, only here

    taken = take_backup(state_directory(state), file.expanduser().absolute(), SystemClock(), with_token=with_token)
    for run in taken.missing:
        print_warning(f"the results of run {run} were removed while the backup was taken, and are not in it")
    sys.stdout.write(
        f"{file}  {taken.bytes / 1024**2:.1f} MiB: {counted(taken.repositories, 'project')}, {counted(taken.runs, 'run')}, {counted(taken.files, 'file')}\n"
    )
    sys.stderr.write(f"  it holds the installation's Secrets{' and its token' if with_token else ''}: keep it as you keep them\n")
    sys.stderr.write(f"  arena restore {file} --state DIR\n")


def restore(
    file: Annotated[Path, typer.Argument(help="Archive that `arena backup` wrote.", metavar="FILE")],
    *,
    state: State = DEFAULT_STATE,
) -> None:
    """Make a state directory from a backup; the directory must be empty or absent.

    The restored installation has an id of its own, so it may live beside the original, even on the same queue server.
    """
    from arena.local.restore import restore_backup  # noqa: PLC0415 - git and the store, only here

    directory = state_directory(state)
    restored = restore_backup(file.expanduser().absolute(), directory)
    sys.stdout.write(f"{directory.root}: restored as it was at {restored.header.created}\n")
    for repository in restored.reconfigured:
        sys.stderr.write(f"  {printable(repository)}: its git config was not arena's own and was replaced\n")
    sys.stderr.write(f"  arena up --state {directory.root}\n")
    sys.stderr.write(
        f"  if the original is gone for good and shared a queue server (REDIS_URL), its keys arena:{restored.header.installation}:* there can be removed\n"
    )
