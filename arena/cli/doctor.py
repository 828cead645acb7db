"""`arena doctor`: what is wrong with this installation, in words, with the remedy."""

import asyncio
import json
import sys
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from arena import settings
from arena.cli.options import DEFAULT_STATE, State, flag, state_directory
from arena.cli.screen import paint, printable
from arena.doctor.examination import examine
from arena.doctor.finding import Finding
from arena.doctor.survey import Survey
from arena.logging import LogLevel, configure_logging
from foundation.clock import SystemClock

_MARKS = {"ok": ("ok  ", "green"), "bad": ("bad ", "red"), "info": ("info", "blue")}


class Report(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("doctor")(doctor)


def doctor(
    *,
    redis_url: Annotated[
        str, typer.Option("--redis-url", envvar=settings.REDIS_URL, show_default="the server's own", help="Queue server that `arena up` was given.")
    ] = "",
    verify_snapshots: Annotated[
        bool,
        flag("--verify-snapshots", envvar=settings.VERIFY_SNAPSHOTS, help_text="Read every file of every snapshot, not of the newest ones only."),
    ] = False,
    verify_objects: Annotated[
        bool, flag("--verify-objects", envvar=settings.VERIFY_OBJECTS, help_text="Read every object of every repository, not their connections only.")
    ] = False,
    output: Annotated[Report, typer.Option("--output", "-o", envvar=settings.DOCTOR_OUTPUT, help="How to print.")] = Report.TEXT,
    state: State = DEFAULT_STATE,
) -> int:
    """Look for what is wrong with this installation, running or not, and say what to do; exit 0 when nothing is wrong, 2 otherwise.

    Nothing is changed. Lines that begin with `info` are worth knowing and nothing wrong.
    """
    configure_logging(LogLevel.ERROR)
    survey = Survey(state_directory(state), SystemClock(), redis_url, verify_snapshots, verify_objects)
    findings = asyncio.run(_examine(survey, shown=output is Report.TEXT))
    problems = sum(finding.state == "bad" for finding in findings)
    if output is Report.JSON:
        document = {"problems": problems, "findings": [asdict(finding) for finding in findings]}
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return 2 if problems else 0


async def _examine(survey: Survey, *, shown: bool) -> list[Finding]:
    findings = []
    async for finding in examine(survey):
        findings.append(finding)
        if shown:
            mark, colour = _MARKS[finding.state]
            sys.stdout.write(f"{paint(mark, colour)} {printable(str(finding))}\n")
            sys.stdout.flush()
    return findings
