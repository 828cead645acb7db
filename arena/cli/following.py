"""Following one object on the server until whoever asks has seen enough, or has waited long enough."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NoReturn

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


class PatienceOver(Exception):
    """Whoever waits has waited long enough; what it waits for may still come."""


@contextmanager
def at_most(patience: timedelta | None) -> Iterator[None]:
    """Let the block take so long, which may wait for a socket; None: as long as it takes. Only in the main thread, and not within itself.

    Raises:
        PatienceOver: the time is over. What the block waited for may have come at that moment.
    """
    if patience is None:
        yield
        return

    def ring(*_: object) -> NoReturn:
        raise PatienceOver

    before = signal.signal(signal.SIGALRM, ring)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, patience.total_seconds())
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:  # also when it rings in the lines above
        signal.signal(signal.SIGALRM, before)
