"""What must be true of every status that a pass leaves behind.

Used by the controller in debug mode and by tests after every pass; it decides nothing.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from reconcile.errors import InvariantBroken
from reconcile.runtime.conditions import MAX_MESSAGE_BYTES, READY, RECONCILING, REDUCED_TYPES, STALLED, find_condition

_REASON = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def check(status: Mapping[str, Any], generation: int | None = None) -> None:
    """Check a status after a pass; `generation`, where given, is that of the object the pass saw.

    Raises:
        InvariantBroken: naming every contradiction.
    """
    found = problems(status, generation)
    if found:
        raise InvariantBroken(f"cannot be a status: {'; '.join(found)}")


def check_untouched(stored: Sequence[Mapping[str, Any]], draft: Sequence[Mapping[str, Any]]) -> None:
    """Check that a reconciler left Ready, Reconciling and Stalled in its draft as they are stored.

    Raises:
        InvariantBroken: naming the condition it wrote.
    """
    for condition_type in REDUCED_TYPES:
        if find_condition(stored, condition_type) != find_condition(draft, condition_type):
            raise InvariantBroken(f"cannot set condition '{condition_type}': only the outcome of a pass writes it")


def check_unedited(obj: Mapping[str, Any], seen: Mapping[str, Any]) -> None:
    """Check that a pass left the object that it was given as it had `seen` it: what is remembered of the store is shared by all passes.

    Raises:
        InvariantBroken: it was edited.
    """
    if obj != seen:
        raise InvariantBroken(f"cannot edit {obj['kind']} '{obj['metadata']['name']}' in place: it is shared; edit the pass's draft of the status")


def problems(status: Mapping[str, Any], generation: int | None = None) -> list[str]:
    """Return what contradicts itself in a status, [] when nothing does."""
    conditions = status.get("conditions") or []
    found = [*_shape(conditions), *_together(conditions)]
    observed = status.get("observedGeneration")
    if generation is not None and observed != generation:
        found.append(f"observedGeneration is {observed}, the object seen has {generation}")
    for condition_type in REDUCED_TYPES:
        condition = find_condition(conditions, condition_type)
        if condition is not None and condition.get("observedGeneration") != observed:
            found.append(f"{condition_type} was observed at generation {condition.get('observedGeneration')}, the status at {observed}")
    return found


def _together(conditions: Sequence[Mapping[str, Any]]) -> list[str]:
    states = {condition.get("type"): condition.get("status") for condition in conditions}
    found = [f"{condition_type} is missing" for condition_type in REDUCED_TYPES if condition_type not in states]
    reconciling, stalled = states.get(RECONCILING) == "True", states.get(STALLED) == "True"
    if reconciling and stalled:
        found.append("Reconciling and Stalled are both True")
    if states.get(READY) == "True" and (reconciling or stalled):
        found.append("Ready is True beside Reconciling or Stalled")
    if READY in states and states[READY] != "True" and not (reconciling or stalled):
        found.append("Ready is not True, and neither Reconciling nor Stalled says why")
    return found


def _shape(conditions: Sequence[Mapping[str, Any]]) -> list[str]:
    found = []
    types = sorted(str(condition.get("type")) for condition in conditions)
    found += [f"{one} is there twice" for one, other in pairwise(types) if one == other]
    for condition in conditions:
        name = condition.get("type")
        if condition.get("status") not in ("True", "False", "Unknown"):
            found.append(f"{name} has status {condition.get('status')!r}")
        if not _REASON.fullmatch(str(condition.get("reason", ""))):
            found.append(f"{name} has reason {condition.get('reason')!r}")
        if not _TIME.fullmatch(str(condition.get("lastTransitionTime", ""))):
            found.append(f"{name} has lastTransitionTime {condition.get('lastTransitionTime')!r}")
        if len(str(condition.get("message", "")).encode()) > MAX_MESSAGE_BYTES:
            found.append(f"{name} has a message over {MAX_MESSAGE_BYTES} bytes")
    return found
