"""What a reconciler is to the runtime: one function from a pass to a result.

Owns the words in which a reconciler answers. What becomes of an answer in the status is `outcome.py`'s; when it is asked is `controller.py`'s.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from reconcile.cluster.port import ResourceKind
from reconcile.runtime.passes import Pass

LookAgain = timedelta | datetime | None
"""When to look again though nothing changed: after a while, at a wall-clock time (cron), or only at the regular interval."""


@dataclass(frozen=True, slots=True)
class Done:
    """The world is as the spec wants it: Ready=True with this reason.

    `final`: nothing will change by itself any more, so the regular interval leaves the object alone until it, or something mapped to it, changes.
    """

    reason: str = "Succeeded"
    message: str = ""
    look_again: LookAgain = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class Progressing:
    """Work goes on and nothing is wrong: Ready=False, Reconciling=True with this reason."""

    reason: str = "Progressing"
    message: str = ""
    look_again: LookAgain = None


@dataclass(frozen=True, slots=True)
class Failed:
    """It is over and it did not succeed (a run with a failing verdict, a cancelled run): Ready=False, Stalled=True with this reason.

    Terminal by definition, so it is `final` as in `Done`; use `raise Stalled` where a change by a person lets the same object go on.
    """

    reason: str
    message: str = ""
    look_again: LookAgain = None


@dataclass(frozen=True, slots=True)
class Silent:
    """Say nothing: Ready, Reconciling, Stalled and observedGeneration stay as stored; the rest of the draft status is written.

    For kinds whose conditions are not ours to write (a batch Job, a neighbour's Provider) and for passes that only clean up.
    """

    look_again: LookAgain = None
    final: bool = False


Result = Done | Progressing | Failed | Silent


class Reconciler(Protocol):
    """Brings objects of one kind to what their spec asks, one pass at a time for each object.

    A pass reads the world afresh, decides, and acts in steps that are safe to repeat; any process may die between any two lines.
    """

    @property
    def kind(self) -> ResourceKind:
        """The kind whose objects are reconciled."""

    async def reconcile(self, scope: Pass, /) -> Result:
        """Do one pass. `scope.deleting` is true for an object that is being deleted and still bears finalizers.

        Raises:
            Stalled: a person must act first.
            Waiting: something else must happen first.
            Exception: anything else is retried with backoff and shown as Reconciling with reason ProgressingWithRetry.
        """


__all__ = ["Done", "Failed", "LookAgain", "Pass", "Progressing", "Reconciler", "Result", "Silent"]
