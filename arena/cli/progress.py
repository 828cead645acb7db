"""One line that shows a run's progress: rewritten in place on a terminal, one line a change elsewhere."""

from datetime import datetime
from typing import Any, TextIO

from arena.cli.listing import at_path
from arena.cli.options import of_namespace
from arena.cli.screen import bar, counted, printable
from foundation.clock import SystemClock
from reconcile.arena_run import finished
from reconcile.kinds.reasons import RunReason


class ProgressLine:
    """The progress of one run on a stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._last = ""
        self._announced = False
        self._advised = False
        self._clock = SystemClock()

    def show(self, run: dict[str, Any]) -> None:
        """Show the run as it is now; of one that has ended only what it was, for its verdict says the rest."""
        self._announce(run)
        if finished(run):
            return
        text = progress_text(run, self._clock.now())
        if text and text != self._last:
            self._stream.write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")
            self._stream.flush()
        self._last = text
        self._advise(run)

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self._terminal and self._last:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _announce(self, run: dict[str, Any]) -> None:
        commit, items = at_path(run, ".status.source.commit"), at_path(run, ".status.plan.items")
        if self._announced or not commit or not items:
            return
        self._announced = True
        workers = at_path(run, ".status.workers") or at_path(run, ".spec.template.workers.replicas") or 1
        self._stream.write(f"{run['metadata']['name']} · commit {commit[:12]} · {counted(items, 'item')} · {counted(workers, 'worker')}\n")

    def _advise(self, run: dict[str, Any]) -> None:
        """Say once how to end a waiting that may have no end, under what it waits for, which then stays on a terminal."""
        if self._advised or at_path(run, '.status.conditions[?(@.type=="Ready")].reason') != RunReason.JOB_CREATION_FAILED:
            return
        self._advised = True
        name, where = run["metadata"]["name"], of_namespace(run["metadata"]["namespace"])
        self._stream.write(f"{chr(10) if self._terminal else ''}  it waits until that is there; to end it: arena cancel {name}{where}\n")
        self._stream.flush()


def progress_text(run: dict[str, Any], now: datetime) -> str:
    """Return the line: a bar, counts, cost and the time left; while the run is not running, what it waits for."""
    progress = at_path(run, ".status.progress")
    if at_path(run, ".status.phase") != "Running" or not progress:
        waiting = at_path(run, '.status.conditions[?(@.type=="Ready")].message')
        return f"  {printable(str(waiting))}" if waiting else ""
    total, done = progress["total"], progress["total"] - progress["pending"]
    if not done and not at_path(run, ".status.activeWorkers"):
        return "  waiting for a free worker"
    parts = [f"  {bar(done, total)}  {done}/{total}"]
    parts += [f"{progress['failed']} failed"] if progress["failed"] else []
    cost, limit = at_path(run, ".status.display.cost"), at_path(run, ".spec.template.budgetLimit")
    parts += [f"{cost}" + (f" of ${limit}" if limit else "")] if cost else []
    started = at_path(run, ".status.startTime")
    if started and 0 < done < total:
        elapsed = (now - datetime.fromisoformat(started)).total_seconds()
        left = int(elapsed * (total - done) / done)
        parts.append(f"{left // 60:02d}:{left % 60:02d} left")
    return "  ".join(parts)
