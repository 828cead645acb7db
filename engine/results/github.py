"""Results in the words of a GitHub workflow: annotations on stdout, a step summary in a file.

Owns escaping and GitHub's limits (docs: "Workflow commands for GitHub Actions"). Must not know environment variables, nor where results lie.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from engine.errors import OutputUnavailable

MAX_ANNOTATIONS = 10
"""A step shows no more errors than these; the step summary has the others."""

MAX_SUMMARY_BYTES = 1_000_000
"""A step's summary is dropped as a whole above 1 MiB."""

_MAX_MESSAGE = 3000
_CUT = b"\n\nThe rest is cut: a step summary holds one megabyte.\n"
_MESSAGE_ESCAPES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY_ESCAPES = _MESSAGE_ESCAPES | str.maketrans({":": "%3A", ",": "%2C"})

Place = tuple[str, int]
"""A file, relative to the repository, and a line from 1."""


def annotations(failed: Iterable[Mapping[str, Any]], place_of: Callable[[str], Place | None]) -> Iterable[str]:
    """Yield an `::error` line, without line end, for each of the first 10 failed items, as `read_failed_items` yields them.

    `place_of` says where a scenario stands. What a model or a check said can end neither the line nor a property of it.
    """
    for item in islice(failed, MAX_ANNOTATIONS):
        place = place_of(item["scenario"])
        properties = {"file": place[0], "line": str(place[1])} if place else {}
        properties["title"] = f"{item['verdict']}: {item['item']}"
        named = ",".join(f"{name}={value.translate(_PROPERTY_ESCAPES)}" for name, value in properties.items())
        yield f"::error {named}::{_causes(item)[:_MAX_MESSAGE].translate(_MESSAGE_ESCAPES)}"


def append_step_summary(path: Path, report: bytes) -> None:
    """Append a Markdown report to the step's summary file, cut at a heading so that GitHub takes it.

    Raises:
        OutputUnavailable: the file cannot be written.
    """
    try:
        room = MAX_SUMMARY_BYTES - (path.stat().st_size if path.exists() else 0) - len(_CUT)
        if len(report) > room:
            report = report[: max(0, report.rfind(b"\n#", 0, max(0, room)))] + _CUT
        with path.open("ab") as stream:
            stream.write(report)
    except OSError as error:
        raise OutputUnavailable(f"cannot write step summary '{path}': {error.strerror or error}") from error


def _causes(item: Mapping[str, Any]) -> str:
    lines = [f"{item['error']['kind']}: {item['error']['message']}"] if item["error"] else []
    for check in item["checks"]["results"]:
        if not check["passed"]:
            where = check["scope"] if check["turn"] is None else f"turn {check['turn'] + 1}"
            lines.append(f"{where}: {check['name'] or check['type']}: {check['error'] or check['message'] or check['explanation'] or 'failed'}")
    return "\n".join(lines) or item["verdict"]
