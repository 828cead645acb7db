"""What a running run shows: progress, activity, cost. A display copy; nothing decides by it."""

from datetime import timedelta

from engine.amounts import cost_text
from engine.results.summary import Summary
from engine.results.verdicts import Counts
from reconcile.run.scope import RunScope

LOOK_AGAIN = timedelta(milliseconds=500)
WRITE_EVERY_S = 2.0


class ProgressPace:
    """Lets a run's progress be written at most every two seconds, so that watching a run costs the store little."""

    def __init__(self) -> None:
        self._written: dict[str, float] = {}

    def due(self, uid: str, now: float) -> bool:
        """Say whether to write now, and remember it."""
        if now - self._written.get(uid, float("-inf")) < WRITE_EVERY_S:
            return False
        self._written[uid] = now
        return True

    def forget(self, uid: str) -> None:
        """Drop a run that is over."""
        self._written.pop(uid, None)


def show_progress(run: RunScope) -> None:
    """Copy the queue's counters into the draft status."""
    state = run.counted()
    _show(run, Counts(state.passed, state.failed, state.errors, state.recorded - state.passed - state.failed - state.errors))
    if state.cost_usd:
        run.status["display"]["cost"] = cost_text(state.cost_usd, is_partial=state.cost_is_partial)


def show_result(run: RunScope, summary: Summary) -> None:
    """Write what the records say into the draft status: the counters of a store that lost a part of them say something else."""
    _show(run, summary.total.counts)
    if cost_usd := summary.total.cost_usd:
        run.status["display"]["cost"] = cost_text(cost_usd, is_partial=summary.total.cost_is_partial)


def _show(run: RunScope, counts: Counts) -> None:
    total, failed = len(run.planned().items), counts.failed + counts.errors
    run.status["progress"] = {"total": total, "completed": counts.passed, "failed": failed, "pending": max(0, total - counts.items)}
    run.status.setdefault("display", {})["progress"] = progress_text(total, counts.passed + failed, failed)


def progress_text(total: int, ended: int, failed: int) -> str:
    """Return the PROGRESS column: `37/40, 1 failed`."""
    return f"{ended}/{total}" + (f", {failed} failed" if failed else "")
