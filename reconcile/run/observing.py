"""What a running run shows: progress, activity, cost. A display copy; nothing decides by it."""

from datetime import timedelta

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
    state, total = run.counted(), len(run.planned().items)
    failed = state.failed + state.errors
    run.status["progress"] = {"total": total, "completed": state.passed, "failed": failed, "pending": max(0, total - state.recorded)}
    display = run.status.setdefault("display", {})
    display["progress"] = progress_text(total, state.passed + failed, failed)
    if state.cost_usd:
        display["cost"] = f"{state.cost_usd:.4f}"


def progress_text(total: int, ended: int, failed: int) -> str:
    """Return the PROGRESS column: `37/40, 1 failed`."""
    return f"{ended}/{total}" + (f", {failed} failed" if failed else "")
