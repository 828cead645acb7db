"""Events: what happened to an object, for a person who runs `kubectl describe`.

Owns the names and the numbers of v1 Events: an equal event is one object with a count, and an object has a bounded number of them. Writing
an event never fails the caller: it decides nothing.
"""

import hashlib
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
    try:
        stored = await cluster.get(EVENT, metadata["namespace"], metadata["name"])
    except NotFound:
        await _make_room(cluster, metadata["namespace"], metadata["labels"][INVOLVED_UID_LABEL])
        try:
            await cluster.create(event)
        except AlreadyExists:
            return False
        return True
    patch = {"count": int(stored.get("count", 1)) + 1, "lastTimestamp": event["lastTimestamp"]}
    try:
        await cluster.patch(EVENT, metadata["namespace"], metadata["name"], patch, resource_version=stored["metadata"]["resourceVersion"])
    except (Conflict, NotFound):
        return False
    return True


async def _make_room(cluster: Cluster, namespace: str, uid: str) -> None:
    events = (await cluster.list(EVENT, namespace, {INVOLVED_UID_LABEL: uid})).items
    surplus = len(events) - MAX_EVENTS_PER_OBJECT + 1
    if surplus <= 0:
        return
    for event in sorted(events, key=_age_order)[:surplus]:
        try:
            await cluster.delete(EVENT, namespace, event["metadata"]["name"])
        except NotFound:
            continue


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
