"""Conditions: one entry a type, with the time of its last change.

Owns the rule that lastTransitionTime moves only with the status. Must not know which types there are, but for the three that only
`outcome.py` writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from reconcile.errors import InvariantBroken

Condition = dict[str, Any]

READY, RECONCILING, STALLED = "Ready", "Reconciling", "Stalled"
REDUCED_TYPES = (READY, RECONCILING, STALLED)
"""The condition types that only `outcome.reduce` writes, in the order in which they stand in a status."""

ConditionStatus = Literal["True", "False", "Unknown"]

MAX_MESSAGE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Finding:
    """What a condition should say now."""

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""


def timestamp(moment: datetime) -> str:
    """Return a moment as Kubernetes writes it: UTC, whole seconds, Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shorten(message: str, limit_bytes: int = MAX_MESSAGE_BYTES) -> str:
    """Return at most `limit_bytes` of UTF-8 of a message, ending in an ellipsis where it was cut."""
    data = message.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return data.decode()
    return data[: limit_bytes - len("…".encode())].decode("utf-8", "ignore") + "…"


def find_condition(conditions: Sequence[Mapping[str, Any]], condition_type: str) -> Mapping[str, Any] | None:
    """Return the condition of a type, None when there is none."""
    return next((condition for condition in conditions if condition.get("type") == condition_type), None)


def renewed(previous: Mapping[str, Any] | None, finding: Finding, generation: int, now: datetime) -> Condition:
    """Return the condition that says `finding`, keeping lastTransitionTime when the status is as before."""
    kept = previous.get("lastTransitionTime") if previous is not None and previous.get("status") == finding.status else None
    return {
        "type": finding.type,
        "status": finding.status,
        "reason": str(finding.reason),
        "message": shorten(finding.message),
        "observedGeneration": generation,
        "lastTransitionTime": kept or timestamp(now),
    }


def set_condition(conditions: list[Condition], finding: Finding, generation: int, now: datetime) -> None:
    """Put a reconciler's own condition into its draft, in place of the one of that type, else at the end.

    Raises:
        InvariantBroken: the type is one that only `outcome.reduce` writes.
    """
    if finding.type in REDUCED_TYPES:
        raise InvariantBroken(f"cannot set condition '{finding.type}': only the outcome of a pass writes it")
    for place, condition in enumerate(conditions):
        if condition.get("type") == finding.type:
            conditions[place] = renewed(condition, finding, generation, now)
            return
    conditions.append(renewed(None, finding, generation, now))
