"""What a person does with kubectl, without starting it each time: objects of a control plane, read and written as its administrator."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError

from arena.cli.client import path_of
from reconcile.cluster.port import ResourceKind
from tests.apiserver.control_plane import ControlPlane

Object = dict[str, Any]
_MERGE = {"Content-Type": "application/merge-patch+json"}


class Objects:
    """The objects of a control plane. What the server refuses is urllib's HTTPError; a server that is away is an OSError."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def find(self, kind: ResourceKind, namespace: str, name: str) -> Object | None:
        """Return an object, None when there is none."""
        try:
            found: Object = self._plane.json(path_of(kind, namespace, name))
        except HTTPError as error:
            error.close()
            if error.code == 404:
                return None
            raise
        return found

    def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        """Return an object that is there."""
        found = self.find(kind, namespace, name)
        assert found is not None, f"{kind} {namespace}/{name} does not exist"
        return found

    def list(self, kind: ResourceKind, namespace: str) -> list[Object]:
        """Return the objects of a namespace, the oldest first; of those of one second in the order of their names."""
        items: list[Object] = self._plane.json(path_of(kind, namespace, ""))["items"]
        return sorted(items, key=lambda item: (item["metadata"]["creationTimestamp"], item["metadata"]["name"]))

    def create(self, kind: ResourceKind, namespace: str, name: str, **body: Any) -> Object:
        """Create an object; `metadata` in `body` is more of its metadata."""
        metadata = {**body.pop("metadata", {}), "name": name}
        return self._sent("POST", path_of(kind, namespace, ""), {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **body})

    def patch(self, kind: ResourceKind, namespace: str, name: str, patch: Mapping[str, Any]) -> Object:
        """Apply a merge patch to an object."""
        return self._sent("PATCH", path_of(kind, namespace, name), patch, **_MERGE)

    def delete(self, kind: ResourceKind, namespace: str, name: str) -> None:
        """Ask for an object's deletion."""
        self._sent("DELETE", path_of(kind, namespace, name), {"propagationPolicy": "Background"})

    def _sent(self, method: str, path: str, body: Mapping[str, Any], **headers: str) -> Object:
        with self._plane.ask(method, path, body, **headers) as answer:
            said: Object = json.load(answer)
        return said
