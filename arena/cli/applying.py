"""Client-side apply: what changes in an object so that it is what a file says.

The last applied file is kept in an annotation, as kubectl does, so that a field that a person removes from the file goes from the object too,
and what others added stays. Of a Secret only the names of its keys are kept: its values stand in its data and nowhere else.
"""

import copy
import json
from typing import Any, Literal

from arena.cli.client import Client
from reconcile.cluster.core_kinds import complete
from reconcile.cluster.port import SECRET, ResourceKind

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_OF_THE_SERVER = frozenset({"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"})
"""Metadata that a file made by `arena get -o yaml` holds and that nobody takes away by leaving it out of the next file."""


def apply_object(client: Client, kind: ResourceKind, document: dict[str, Any], namespace: str) -> Literal["created", "configured", "unchanged"]:
    """Create the object or patch it, and say which."""
    wanted = _prepared(kind, document, namespace)
    where = wanted["metadata"].get("namespace", "")
    live = client.find(kind, where, wanted["metadata"]["name"])
    if live is None:
        client.create(kind, where, wanted)
        return "created"
    last = json.loads((live["metadata"].get("annotations") or {}).get(LAST_APPLIED) or "{}")
    patch = three_way_patch(_recorded(kind, last), wanted, live)
    if not patch:
        return "unchanged"
    changed = client.patch(kind, where, wanted["metadata"]["name"], patch)
    return "unchanged" if changed["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"] else "configured"


def _prepared(kind: ResourceKind, document: dict[str, Any], namespace: str) -> dict[str, Any]:
    wanted = copy.deepcopy(document)
    wanted.pop("status", None)
    if kind.namespaced:
        wanted["metadata"].setdefault("namespace", namespace)
    if kind is SECRET:
        wanted = _with_data(wanted)
    plain = json.dumps(_recorded(kind, wanted), sort_keys=True, separators=(",", ":"))
    wanted["metadata"]["annotations"] = {**(wanted["metadata"].get("annotations") or {}), LAST_APPLIED: plain}
    return wanted


def _applied(document: dict[str, Any]) -> dict[str, Any]:
    """Return what of a document its author decides: without the server's metadata and without an older record of itself."""
    metadata = {key: value for key, value in (document.get("metadata") or {}).items() if key not in _OF_THE_SERVER}
    if metadata.get("annotations"):
        metadata["annotations"] = {key: value for key, value in metadata["annotations"].items() if key != LAST_APPLIED}
    return {**document, "metadata": metadata}


def _with_data(secret: dict[str, Any]) -> dict[str, Any]:
    """Return a Secret with its stringData among its data, as servers store it, so that equal files change nothing and a key that is gone goes."""
    filled = copy.deepcopy(secret)
    complete(SECRET, filled)
    return filled if "type" in secret else {key: value for key, value in filled.items() if key != "type"}


def _recorded(kind: ResourceKind, document: dict[str, Any]) -> dict[str, Any]:
    """Return what the annotation holds of a document; of a Secret's data and stringData the keys, as data."""
    applied = _applied(document)
    if kind is not SECRET:
        return applied
    given = [applied.pop(field, None) for field in ("data", "stringData")]
    keys = [key for values in given if isinstance(values, dict) for key in values]
    return {**applied, "data": dict.fromkeys(keys, "")} if keys else applied


def three_way_patch(last: dict[str, Any], wanted: dict[str, Any], live: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch from `live` to `wanted` that removes only what `last` had: keys that are gone become null, lists are replaced."""
    patch: dict[str, Any] = {key: None for key in last if key not in wanted and key in live}
    for key, value in wanted.items():
        present = live.get(key)
        if isinstance(value, dict) and isinstance(present, dict):
            before = last.get(key)
            inner = three_way_patch(before if isinstance(before, dict) else {}, value, present)
            if inner:
                patch[key] = inner
        elif key not in live or value != present:
            patch[key] = value
    return patch
