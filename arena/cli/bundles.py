"""`arena init` and `arena validate`: begin a bundle, check a bundle."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from arena.cli.evaluate import locate
from arena.cli.screen import counted, paint
from arena.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("init")(init)
    app.command("validate")(validate)


def init(path: Annotated[Path, typer.Argument(help="Folder to make; it must not hold a bundle yet.", metavar="DIR")] = Path()) -> None:
    """Write a starter bundle: one prompt, two mock providers, scenarios that pass."""
    from engine.bundle.starter import starter_files  # noqa: PLC0415 - only here

    files = starter_files()
    taken = [name for name in files if (path / name).exists()]
    if taken:
        raise UsageError(f"cannot write a bundle to '{path}': '{taken[0]}' exists", hint="name an empty folder")
    for name, content in files.items():
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        sys.stdout.write(f"{target}\n")
    sys.stderr.write(f"  arena eval {path}\n")


def validate(path: Annotated[Path, typer.Argument(help="Folder of the bundle, or its arena config file.", metavar="PATH")] = Path()) -> int:
    """Check a bundle: errors and warnings with file and line; exit 0 when it can run, 2 when it cannot."""
    from engine.validate import validate_bundle  # noqa: PLC0415 - the engine, only when it is needed

    root, arena_file = locate(path)
    problems = validate_bundle(root, arena_file)
    for problem in problems:
        colour = "red" if problem.severity == "error" else "yellow"
        place = f"{problem.file}:{problem.line}: " if problem.line else f"{problem.file}: " if problem.file else ""
        sys.stdout.write(f"{paint(f'{problem.severity}:', colour)} {place}{problem.message}\n")
        if problem.hint:
            sys.stdout.write(f"  hint: {problem.hint}\n")
    errors = sum(problem.severity == "error" for problem in problems)
    sys.stdout.write(f"{root / arena_file}: {counted(errors, 'error')}, {counted(len(problems) - errors, 'warning')}\n")
    return 2 if errors else 0
