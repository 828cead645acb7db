"""How a run waits that has no worker Job yet because something it names is not there: said in JobCreated, and looked at again less and less often.

Source: the specification's `JobCreationFailed`, "the controller retries with backoff".
"""

from datetime import datetime, timedelta
from typing import Final

from reconcile.errors import Waiting
from reconcile.kinds.reasons import RunReason
from reconcile.run.scope import RunScope
from reconcile.runtime.conditions import find_condition

FIRST: Final = timedelta(seconds=5)
LONGEST: Final = timedelta(minutes=1)


def waiting_for_job(run: RunScope, message: str) -> Waiting:
    """Set JobCreated to False with what is missing, and return what the pass is to raise.

    The wait is as long as it has lasted so far, from five seconds to a minute, so it doubles.
    """
    before = find_condition(run.status.get("conditions", []), "JobCreated") or {}
    same = before.get("reason") == RunReason.JOB_CREATION_FAILED
    lasted = run.clock.now() - datetime.fromisoformat(before["lastTransitionTime"]) if same else timedelta()
    run.scope.condition("JobCreated", "False", RunReason.JOB_CREATION_FAILED, message)
    return Waiting(RunReason.JOB_CREATION_FAILED, message, max(FIRST, min(lasted, LONGEST)))
