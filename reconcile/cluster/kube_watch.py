"""A watch that goes on: it resumes where it was when the server ends it, the connection breaks, or nobody answers.

The numbers are client-go's (tools/cache/reflector.go). Owns when to come again; what is done with an event is the caller's.
"""

import json
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace

import structlog

from foundation.clock import Clock
from reconcile.cluster.kube_errors import error_of
from reconcile.cluster.kube_session import Request, Session
from reconcile.cluster.port import EventType, Object, WatchEvent
from reconcile.errors import StoreUnavailable, Unauthorized

SHORTEST_S, LONGEST_S = 300, 600
"""A watch is asked for a random time between these, so that many do not come back at once."""
BRIEF_S = 1.0

_TYPES: Mapping[str, EventType] = {"ADDED": "ADDED", "MODIFIED": "MODIFIED", "DELETED": "DELETED"}

_log = structlog.get_logger(__name__)


class Backoff:
    """Delays that double from 0.8 s to 30 s, with up to as much again at random; two minutes without asking begin anew."""

    FIRST_S, LIMIT_S, RESET_S = 0.8, 30.0, 120.0

    def __init__(self, clock: Clock, dice: random.Random) -> None:
        self._clock = clock
        self._dice = dice
        self._failures = 0
        self._asked_s = clock.monotonic()

    def delay_s(self) -> float:
        """Return how long to wait after one more failure."""
        now = self._clock.monotonic()
        if now - self._asked_s > self.RESET_S:
            self._failures = 0
        delay_s = min(self.FIRST_S * 2.0 ** min(self._failures, 64), self.LIMIT_S)
        self._failures += 1
        self._asked_s = now
        return delay_s * (1 + self._dice.random())


class Watch:
    """The changes that one request asks for, from a resourceVersion on."""

    def __init__(self, session: Session, request: Request, clock: Clock, dice: random.Random) -> None:
        self._session = session
        self._request = request
        self._clock = clock
        self._dice = dice
        self._backoff = Backoff(clock, dice)

    async def events(self, version: str) -> AsyncGenerator[WatchEvent, None]:
        """Yield every change after `version`, for ever, or until the session is closed.

        Raises:
            Gone: the server no longer remembers how it was then.
            Forbidden, Invalid, Unauthorized: it refuses the request.
            StoreUnavailable: it reports a failure that a resumed watch would only meet again; list again.
        """
        while not self._session.closed:
            async with aclosing(self._once(version)) as events:
                async for event_type, obj in events:
                    if event_type == "ERROR":
                        raise error_of(self._request.about, int(obj.get("code", 500)), json.dumps(obj).encode())
                    version = obj["metadata"]["resourceVersion"]
                    if event_type in _TYPES:
                        yield WatchEvent(_TYPES[event_type], without_managers(obj))

    async def _once(self, version: str) -> AsyncGenerator[tuple[str, Object], None]:
        """Yield what one connection tells, errors and bookmarks included, until it ends or breaks; one that was of no use is followed by a delay."""
        began, was_useful = self._clock.monotonic(), False
        try:
            async with self._session.lines(self._from(version)) as lines:
                async for line in lines:
                    was_useful = True
                    yield _decoded(line)
            was_useful = was_useful or self._clock.monotonic() - began > BRIEF_S
        except Unauthorized:
            raise
        except StoreUnavailable as error:
            if self._session.closed:
                return
            _log.warning("watch.interrupted", error=error.message)
        if not was_useful:
            await self._clock.sleep(self._backoff.delay_s())

    def _from(self, version: str) -> Request:
        asked = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        asked["timeoutSeconds"] = str(self._dice.randint(SHORTEST_S, LONGEST_S))
        return replace(self._request, query={**(self._request.query or {}), **asked})


def without_managers(obj: Object) -> Object:
    """Take metadata.managedFields, which only apply and diff need and which can outweigh the rest, out of an object just received."""
    obj["metadata"].pop("managedFields", None)
    return obj


def _decoded(line: bytes) -> tuple[str, Object]:
    try:
        event = json.loads(line)
        return event["type"], event["object"]
    except (ValueError, KeyError, TypeError) as error:
        raise StoreUnavailable(f"cannot read a watch: a line is no event: {error}") from error
