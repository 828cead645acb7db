"""Following one object on the server until whoever asks has seen enough."""

from collections.abc import Iterator
from typing import Any

from arena.cli.client import Client, ServerRefused
from arena.errors import UsageError
from reconcile.cluster.port import ResourceKind


def follow(client: Client, kind: ResourceKind, obj: dict[str, Any], *, until: str) -> Iterator[dict[str, Any]]:
    """Yield an object as it is now, then after each change; ends when the server goes.

    `until` says what it is waited for (`it ended`).

    Raises:
        UsageError: it was deleted before.
    """
    metadata = obj["metadata"]
    while True:
        current = client.get(kind, metadata["namespace"], metadata["name"])
        yield current
        try:
            for change, changed in client.watch(kind, metadata["namespace"], current["metadata"]["resourceVersion"]):
                if changed["metadata"]["uid"] != metadata["uid"]:
                    continue
                if change == "DELETED":
                    raise UsageError(f"{kind.kind} '{metadata['name']}' was deleted before {until}")
                yield changed
        except ServerRefused as error:
            if error.reason != "Expired":
                raise
