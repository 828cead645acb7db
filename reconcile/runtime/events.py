"""Events: what happened to an object, for a person who runs `kubectl describe`.

Owns the names and the numbers of v1 Events: an equal event is one object with a count, and an object has a bounded number of them. Writing
an event never fails the caller: it decides nothing.
"""

import contextlib
import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import structlog

from foundation.clock import Clock
from reconcile.cluster.port import EVENT, Cluster, Object
from reconcile.errors import AlreadyExists, ClusterError, Conflict, NotFound
from reconcile.runtime.conditions import shorten, timestamp

EventKind = Literal["Normal", "Warning"]

MAX_EVENTS_PER_OBJECT = 50
INVOLVED_UID_LABEL = "arena.omnia.altairalabs.ai/involved-uid"
REPORTER = "arena"

_ATTEMPTS = 3
_MAX_NAME = 253

_log = structlog.get_logger(__name__)


async def record(cluster: Cluster, obj: Object, event_type: EventKind, reason: str, message: str, *, clock: Clock) -> None:
    """Record that something happened to `obj`.

    Equal type, reason and message of one object (by uid) are one Event whose count grows. Of more than 50 different ones the oldest go.
    Messages are cut to 1 KiB. A store that refuses is logged, not raised.
    """
    event = _event(obj, event_type, reason, shorten(message), timestamp(clock.now()))
    try:
        for _ in range(_ATTEMPTS):
            if await _write(cluster, event):
                return
    except ClusterError as error:
        _log.warning("event.lost", reason=reason, error=error.message)


async def _write(cluster: Cluster, event: Object) -> bool:
    """Count or create the event; False when another writer was faster."""
    metadata = event["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    told = (await cluster.list(EVENT, namespace, {INVOLVED_UID_LABEL: metadata["labels"][INVOLVED_UID_LABEL]})).items
    stored = next((other for other in told if other["metadata"]["name"] == name), None)
    try:
        if stored is None:
            await _make_room(cluster, told)
            await cluster.create(event)
        else:
            patch = {"count": int(stored.get("count", 1)) + 1, "lastTimestamp": event["lastTimestamp"]}
            await cluster.patch(EVENT, namespace, name, patch, resource_version=stored["metadata"]["resourceVersion"])
    except (AlreadyExists, Conflict, NotFound):
        return False
    return True


async def _make_room(cluster: Cluster, told: Sequence[Object]) -> None:
    surplus = len(told) - MAX_EVENTS_PER_OBJECT + 1
    for event in sorted(told, key=_age_order)[: max(0, surplus)]:
        with contextlib.suppress(NotFound):
            await cluster.delete(EVENT, event["metadata"]["namespace"], event["metadata"]["name"])


def _age_order(event: Object) -> tuple[str, str]:
    return str(event.get("lastTimestamp", "")), str(event["metadata"]["name"])


def _event(obj: Object, event_type: EventKind, reason: str, message: str, now: str) -> Object:
    metadata: dict[str, Any] = obj["metadata"]
    uid = str(metadata["uid"])
    digest = hashlib.sha256(f"{uid}\0{event_type}\0{reason}\0{message}".encode()).hexdigest()[:16]
    namespace = metadata.get("namespace", "")
    involved = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": metadata["name"], "uid": uid}
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {
            "name": f"{metadata['name'][: _MAX_NAME - len(digest) - 1].rstrip('.-')}.{digest}",
            "namespace": namespace or "default",
            "labels": {INVOLVED_UID_LABEL: uid},
        },
        "involvedObject": involved | ({"namespace": namespace} if namespace else {}),
        "type": event_type,
        "reason": reason,
        "message": message,
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": REPORTER},
        "reportingComponent": REPORTER,
        "reportingInstance": "",
    }
