"""From what a pass said to what the status shows: the only writer of Ready, Reconciling, Stalled and observedGeneration.

Pure: no I/O, no clock of its own. The three conditions are always there, first and in this order, so that kstatus (Argo CD, Flux, `kubectl
wait`) reads every kind alike:

| a pass says                     | Ready | Reconciling | Stalled | looked at again                       |
|---------------------------------|-------|-------------|---------|---------------------------------------|
| Done                            | True  | False       | False   | look_again, interval (not when final) |
| Progressing, raise Waiting      | False | True        | False   | look_again or `after`, interval       |
| any other exception             | False | True        | False   | backoff (reason ProgressingWithRetry) |
| raise Stalled                   | False | False       | True    | when it changes, interval             |
| Failed                          | False | False       | True    | when it changes                       |

Why `Failed` is Stalled=True: kstatus reads Ready=False alone as "in progress", so a GitOps tool that waits for a run that failed its tests
would wait for ever; with Stalled=True it reports a failure at once, as it does for a batch Job. `Failed` differs from `raise Stalled` in
that nothing a person does brings the same object back.

All three carry the outcome's reason. A False Reconciling or Stalled has no message: it would only repeat Ready's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from foundation.errors import ArenaError
from reconcile.errors import Stalled, Waiting
from reconcile.runtime.conditions import READY, RECONCILING, REDUCED_TYPES, STALLED, Condition, Finding, find_condition, renewed
from reconcile.runtime.reconciler import Done, Failed, LookAgain, Progressing, Result, Silent

RETRY_REASON = "ProgressingWithRetry"


@dataclass(frozen=True, slots=True)
class Reduced:
    """What a pass comes to.

    `conditions` is the whole list to store and `observed_generation` the number; None for either: leave what is stored (`Silent`).
    `retry`: try again with growing delays. `final`: the regular interval may skip the object.
    """

    conditions: list[Condition] | None
    observed_generation: int | None
    look_again: LookAgain = None
    retry: bool = False
    final: bool = False


@dataclass(frozen=True, slots=True)
class _Words:
    ready: bool
    reconciling: bool
    stalled: bool
    reason: str
    message: str


def reduce(conditions: Sequence[Mapping[str, Any]], outcome: Result | Exception, generation: int, now: datetime) -> Reduced:
    """Reduce the outcome of a pass to conditions and a next look.

    `conditions` is the draft's list: the three reduced types are replaced, all others kept in their order, and lastTransitionTime moves
    only where the status does. Reducing the same outcome again, at any later time, gives equal conditions.
    `generation` is that of the object the pass saw.
    """
    look_again, retry, final = _next_look(outcome)
    if isinstance(outcome, Silent):
        return Reduced(None, None, look_again, retry, final)
    words = _words(outcome)
    findings = (
        _finding(READY, words.ready, words, show=True),
        _finding(RECONCILING, words.reconciling, words, show=words.reconciling),
        _finding(STALLED, words.stalled, words, show=words.stalled),
    )
    reduced = [renewed(find_condition(conditions, finding.type), finding, generation, now) for finding in findings]
    others = [dict(condition) for condition in conditions if condition.get("type") not in REDUCED_TYPES]
    return Reduced([*reduced, *others], generation, look_again, retry, final)


def _finding(condition_type: str, holds: bool, words: _Words, *, show: bool) -> Finding:  # noqa: FBT001 - the value itself
    return Finding(condition_type, "True" if holds else "False", words.reason, words.message if show else "")


def _next_look(outcome: Result | Exception) -> tuple[LookAgain, bool, bool]:
    match outcome:
        case Done() | Silent():
            return outcome.look_again, False, outcome.final
        case Progressing():
            return outcome.look_again, False, False
        case Failed():
            return outcome.look_again, False, True
        case Waiting():
            return outcome.after, False, False
        case Stalled():
            return None, False, False
        case _:
            return None, True, False


def _words(outcome: Done | Progressing | Failed | Exception) -> _Words:
    match outcome:
        case Done():
            return _Words(ready=True, reconciling=False, stalled=False, reason=outcome.reason, message=outcome.message)
        case Progressing():
            return _Words(ready=False, reconciling=True, stalled=False, reason=outcome.reason, message=outcome.message)
        case Failed():
            return _Words(ready=False, reconciling=False, stalled=True, reason=outcome.reason, message=outcome.message)
        case Waiting():
            return _Words(ready=False, reconciling=True, stalled=False, reason=outcome.reason, message=_read_aloud(outcome))
        case Stalled():
            return _Words(ready=False, reconciling=False, stalled=True, reason=outcome.reason, message=_read_aloud(outcome))
        case _:
            return _Words(ready=False, reconciling=True, stalled=False, reason=RETRY_REASON, message=_read_aloud(outcome))


def _read_aloud(error: Exception) -> str:
    """Return what a status may say of an error.

    A person wrote an ArenaError to be read. The text of any other exception may hold a credential (a URL, a header), so only its type is
    shown; the log has the rest.
    """
    if isinstance(error, ArenaError):
        return f"{error.message}; {error.hint}" if error.hint else error.message
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}"
    return f"unexpected {type(error).__name__}; the log of the controller has the details"
