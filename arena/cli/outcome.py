"""What a run that has ended tells a person, and the exit code it stands for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from arena.cli.listing import at_path
from arena.cli.options import of_namespace
from arena.cli.screen import paint, printable
from engine.amounts import cost_text

EXIT_PASS, EXIT_FAIL, EXIT_REFUSED, EXIT_ERROR = 0, 1, 2, 3
EXIT_TIMED_OUT = 124
"""As of timeout(1): whoever waited has waited long enough, and there is no verdict yet."""

_BY_VERDICT = {"pass": EXIT_PASS, "fail": EXIT_FAIL, "error": EXIT_ERROR, "cancelled": EXIT_ERROR}
_NEVER_REFUSALS = {"Cancelled", "DeadlineExceeded", "WorkersFailed", "QueueLost"}
_REFUSALS_OF_WORKERS = {"CredentialMissing", "NotSupported"}
_SHOWN_FAILURES = 5
_LITTLE_USD = 1e-9
"""What a total cost stands for whose four digits are zeros: it is only set above zero."""


def exit_code(run: dict[str, Any]) -> int:
    """Return 0 pass, 1 fail, 2 refused before the first item, 3 error or cancelled."""
    summary, reason = at_path(run, ".status.result.summary"), _ready(run, "reason")
    if summary is None:
        return EXIT_ERROR if reason in _NEVER_REFUSALS else EXIT_REFUSED
    if reason in _REFUSALS_OF_WORKERS and summary["totalItems"] == "0":
        return EXIT_REFUSED
    return _BY_VERDICT[summary["verdict"]]


def verdict_lines(run: dict[str, Any], directory: Path) -> Iterator[str]:
    """Yield the lines that say how a run ended: verdict, what it tested, the first failures, what to type next."""
    from arena.cli.showing import failure_lines  # noqa: PLC0415 - reads results, which a refused run has none of

    name, code = run["metadata"]["name"], exit_code(run)
    word, colour = {EXIT_PASS: ("passed", "green"), EXIT_FAIL: ("failed", "red"), EXIT_REFUSED: ("refused", "red"), EXIT_ERROR: ("error", "red")}[
        code
    ]
    if run["status"]["phase"] == "Cancelled":
        word, colour = "cancelled", "yellow"
    yield f"{paint(word, colour)}  {name}  {_what(run)}".rstrip()
    if code != EXIT_PASS:
        yield f"  {printable(_ready(run, 'reason'))}: {printable(_ready(run, 'message'))}"
    summary = at_path(run, ".status.result.summary")
    if summary is None or code == EXIT_PASS:
        return
    yield from failure_lines(directory, limit=_SHOWN_FAILURES)
    flag = " --failed" if int(summary["totalItems"]) > int(summary["passedItems"]) else ""
    yield f"  arena show {name}{flag}{of_namespace(run['metadata']['namespace'])}"


def _what(run: dict[str, Any]) -> str:
    commit = at_path(run, ".status.source.commit")
    summary = at_path(run, ".status.result.summary") or {}
    parts = [f"commit {commit[:12]}"] if commit else []
    if summary:
        rate = f"pass rate {summary['passRate']} % ({summary['passedItems']} of {summary['totalItems']})"
        parts.append(rate if int(summary["totalItems"]) else "no item was run")
        parts += [cost_text(float(summary["totalCost"]) or _LITTLE_USD, is_partial="costIsPartial" in summary)] if "totalCost" in summary else []
        parts += ["MOCKED"] if summary.get("mocked") else []
    return "  ".join(parts)


def _ready(run: dict[str, Any], field: str) -> str:
    return str(at_path(run, f'.status.conditions[?(@.type=="Ready")].{field}') or "")
