"""What a kubelet asks a process: `/healthz`, whether its event loop turns, and `/readyz`, whether it can do its work.

Owns how checks are asked and how their answers are told. What a process needs is its own to say, as named checks.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

import structlog
from starlette.responses import PlainTextResponse, Response

from arena.front_door import Receive, Scope, Send
from foundation.clock import Clock
from foundation.errors import ArenaError
from reconcile.runtime.deadline import within

Check = Callable[[], Awaitable[str]]
"""Looks at one thing that the process needs; returns what is wrong with it, "" when nothing is, or raises an ArenaError that says so."""

CHECK_S: Final = 3.0
"""So long a check may take; a kubelet's own limit must be longer."""
FRESH_S: Final = 1.0
"""Those who ask within a second are told the same: whoever can reach the port cannot make a process ask its API server more often."""

log = structlog.get_logger(__name__)


class Readiness:
    """Whether a process can do its work, by its checks; never after `stop`.

    A trouble of one of `at_first` makes it unready only until it was ready once: an upgrade waits until a new process has all that it needs, but who
    is asked by others for what needs none of that goes on answering them when it fails later.
    """

    def __init__(self, checks: Mapping[str, Check], clock: Clock, *, at_first: Collection[str] = ()) -> None:
        self._checks = checks
        self._at_first = at_first
        self._was_ready = False
        self._clock = clock
        self._turn = asyncio.Lock()
        self._seen: Mapping[str, str] | None = None
        self._looked_s = 0.0
        self._stopping = False

    def stop(self) -> None:
        """Say from now on that the process ends."""
        self._stopping = True

    async def troubles(self) -> Mapping[str, str]:
        """Return by check's name what is wrong, "" where nothing is; at most a second old."""
        async with self._turn:
            if self._seen is None or self._clock.monotonic() - self._looked_s >= FRESH_S:
                before, self._seen = self._seen, await self._look()
                self._looked_s = self._clock.monotonic()
                if self._seen != before:
                    log.info("readiness.changed", troubles={name: trouble for name, trouble in self._seen.items() if trouble})
                self._was_ready = self._was_ready or not any(self._seen.values())
            return {"stopping": "the process ends", **self._seen} if self._stopping else self._seen

    def counts(self, name: str) -> bool:
        """Say whether a trouble of this check makes the process unready now."""
        return not (self._was_ready and name in self._at_first)

    async def _look(self) -> Mapping[str, str]:
        async with asyncio.TaskGroup() as group:
            looks = {name: group.create_task(self._trouble(check)) for name, check in self._checks.items()}
        return {name: look.result() for name, look in looks.items()}

    async def _trouble(self, check: Check) -> str:
        try:
            found = await within(CHECK_S, _as_coroutine(check), self._clock)
        except ArenaError as error:
            return error.message
        return f"no answer within {CHECK_S:g} s" if found is None else found


class Probes:
    """The ASGI application of a process's probe listener. It tells causes, never secrets, and needs no credential."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            await (await self._answer(str(scope["path"])))(scope, receive, send)

    async def _answer(self, path: str) -> Response:
        if path == "/healthz":
            return PlainTextResponse("ok\n")
        if path != "/readyz":
            return PlainTextResponse("not found: probes are /healthz and /readyz\n", status_code=404)
        troubles = await self._readiness.troubles()
        missing = {name for name, trouble in troubles.items() if trouble and self._readiness.counts(name)}
        lines = [f"[{'-' if name in missing else '!'}] {name}: {trouble}\n" if trouble else f"[+] {name}: ok\n" for name, trouble in troubles.items()]
        return PlainTextResponse("".join(lines), status_code=503 if missing else 200)


async def _as_coroutine(check: Check) -> str:
    return await check()
