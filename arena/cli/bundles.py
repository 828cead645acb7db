"""`arena init` and `arena validate`: begin a bundle, check a bundle."""

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from arena import settings
from arena.cli.options import flag
from arena.cli.screen import counted, paint
from arena.cli.selecting import locate
from arena.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("init")(init)
    app.command("validate")(validate)
    app.command("schema")(schema)


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


class Words(StrEnum):
    """How problems are printed."""

    TEXT = "text"
    JSON = "json"


def validate(
    path: Annotated[Path, typer.Argument(help="Folder of the bundle, or its arena config file.", metavar="PATH")] = Path(),
    *,
    allow_code: Annotated[
        bool, flag("--allow-code", envvar=settings.EVAL_ALLOW_CODE, help_text="Say nothing of programs that need leave to run.")
    ] = False,
    output: Annotated[Words, typer.Option("--output", "-o", envvar=settings.VALIDATE_OUTPUT, help="How to print.")] = Words.TEXT,
) -> int:
    """Check a bundle: errors and warnings with file and line; exit 0 when it can run, 2 when it cannot."""
    from engine.validate import validate_bundle  # noqa: PLC0415 - the engine, only when it is needed

    root, arena_file = locate(path)
    problems = validate_bundle(root, arena_file, with_code=allow_code)
    errors = sum(problem.severity == "error" for problem in problems)
    if output is Words.JSON:
        listed = [asdict(problem) for problem in problems]
        sys.stdout.write(json.dumps({"valid": not errors, "problems": listed}, indent=2, ensure_ascii=False) + "\n")
        return 2 if errors else 0
    for problem in problems:
        colour = "red" if problem.severity == "error" else "yellow"
        place = f"{problem.file}:{problem.line}: " if problem.line else f"{problem.file}: " if problem.file else ""
        sys.stdout.write(f"{paint(f'{problem.severity}:', colour)} {place}{problem.message}\n")
        if problem.hint:
            sys.stdout.write(f"  hint: {problem.hint}\n")
    sys.stdout.write(f"{root / arena_file}: {counted(errors, 'error')}, {counted(len(problems) - errors, 'warning')}\n")
    return 2 if errors else 0


def schema(kind: Annotated[str, typer.Argument(help="Kind of file; without one they are listed.", metavar="[KIND]")] = "") -> None:
    """Print the JSON Schema of a kind of file, for editors: `# yaml-language-server: $schema=FILE`."""
    from engine.bundle.schemas import KINDS, kind_schema  # noqa: PLC0415 - the engine, only when it is needed

    if not kind:
        sys.stdout.writelines(f"{name}\n" for name in KINDS)
        return
    found = next((name for name in KINDS if name.lower() == kind.lower()), None)
    if found is None:
        raise UsageError(f"cannot find a schema of '{kind}'", hint=f"kinds are: {', '.join(KINDS)}")
    sys.stdout.write(json.dumps(kind_schema(found), indent=2, ensure_ascii=False) + "\n")
