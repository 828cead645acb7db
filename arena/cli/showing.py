"""A run's results in words: rates, failed items, conversations, and the line that reproduces each."""

import json
import shlex
import sys
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

from arena.cli.alike import likeness_of, more_like_it, told_once
from arena.cli.outcome import verdict_lines
from arena.cli.screen import paint, printable, table
from engine.errors import OutputUnavailable
from engine.plan import Plan
from engine.results.reader import read_failed_items, read_summary
from engine.results.reproduce import reproduce_command

_LONGEST_MESSAGE = 2000


def show_run(run: dict[str, Any], directory: Path, *, transcripts: bool) -> None:
    """Print a run that may still be going."""
    status = run.get("status") or {}
    if status.get("completionTime"):
        first = next(iter(verdict_lines(run, directory)))
        sys.stdout.write(f"{first}\n")
    else:
        sys.stdout.write(f"{run['metadata']['name']}  {status.get('phase', 'Pending')}  {(status.get('display') or {}).get('progress', '')}\n")
    source = status.get("source") or {}
    sys.stdout.write(f"  ref {source.get('ref', '?')}, commit {source.get('commit', 'not pinned yet')}\n")
    ready = next((c for c in status.get("conditions", []) if c["type"] == "Ready"), None)
    if ready is not None:
        sys.stdout.write(f"  {ready['reason']}: {printable(ready['message'])}\n")
    if (status.get("result") or {}).get("summary"):
        sys.stdout.write(_matrix(directory))
        lines = list(failure_lines(directory, transcripts=transcripts))
        sys.stdout.writelines(f"{line}\n" for line in lines)
        if lines and transcripts and (again := _of_a_job(run, directory)):
            sys.stdout.write(f"\n  again {again}\n")
        sys.stdout.write(f"\n  files {directory}\n")


def _of_a_job(run: dict[str, Any], directory: Path) -> str:
    """Return the command that runs everything again where only the job has the models; "" where each item has a command of its own."""
    plan, job = _plan(directory), (run["spec"].get("jobRef") or {}).get("name")
    if plan is None or plan.own_providers or not job:
        return ""
    commit = (run["status"].get("source") or {}).get("commit")
    return shlex.join(["arena", "run", job, *(["--ref", commit] if commit else []), "--wait"])


def _matrix(directory: Path) -> str:
    try:
        cells = read_summary(directory)["cells"]
    except OutputUnavailable as error:
        return f"  {error.message}\n"
    rows = [[c["scenario"], c["provider"], str(c["items"]), str(c["passed"]), str(c["failed"]), str(c["errors"])] for c in cells]
    return "\n" + table(["SCENARIO", "PROVIDER", "ITEMS", "PASSED", "FAILED", "ERRORS"], rows)


def failure_lines(directory: Path, *, limit: int | None = None, transcripts: bool = False) -> Iterator[str]:
    """Yield, for each failed item, its failed checks and the command that runs it again; with `transcripts`, its conversation.

    Items that ended in the same error are told once. `limit` is the number of items that are told; a last line counts those that nothing is said of.
    """
    plan, untold = _plan(directory), 0
    items = {item.id: item for item in plan.items} if plan else {}

    def likeness(item: dict[str, Any]) -> Hashable:
        return likeness_of(item["verdict"], item["provider"], list(_causes(item, explained=True)))

    try:
        for told, (item, others) in enumerate(told_once(lambda: read_failed_items(directory), likeness)):
            if limit is not None and told >= limit:
                untold += 1 + others
                continue
            yield ""
            yield f"{paint(item['verdict'], 'red')}  {item['scenario']} x {item['provider']}  trial {item['trial']}{_variant(item)}"
            yield from (f"  {printable(text)}" for text in _causes(item, explained=transcripts))
            if transcripts:
                yield from _conversation(item)
            if plan is not None and item["item"] in items and (again := reproduce_command(plan, items[item["item"]])):
                yield f"  {again}"
            yield from more_like_it(others)
    except OutputUnavailable as error:
        yield f"  {error.message}"
    if untold:
        yield f"\n  and {untold} more"


def _variant(item: dict[str, Any]) -> str:
    return f"  {printable(item['perturbation'])}" if item["perturbation"] else ""


def _causes(item: dict[str, Any], *, explained: bool) -> Iterator[str]:
    if item["error"]:
        yield f"{item['error']['kind']}: {item['error']['message']}"
    for check in item["checks"]["results"]:
        if not check["passed"]:
            where = f"turn {check['turn'] + 1}" if check["turn"] is not None else check["scope"]
            said = check["error"] or check["message"] or check["explanation"]
            yield f"{where}: {check['name'] or check['type']}: {said}"
            if explained and check["explanation"] and check["explanation"] != said:
                yield f"  {check['explanation']}"


def _conversation(item: dict[str, Any]) -> Iterator[str]:
    for message in item["messages"]:
        text = str(message.get("content") or "")
        calls = ", ".join(f"{call['name']}({json.dumps(call['args'], ensure_ascii=False)})" for call in message.get("toolCalls") or [])
        shown = text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"
        yield f"    {message['role']:>9}  {printable(shown)}" + (f"  [{printable(calls)}]" if calls else "")


def _plan(directory: Path) -> Plan | None:
    """Return the run's plan; None when its directory is gone."""
    files = sorted(directory.glob("plan-*.json")) if directory.is_dir() else []
    return Plan.from_bytes(files[0].read_bytes()) if files else None
