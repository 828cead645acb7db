"""One HTTP request and its answer, as the git services use them.

Owns when an answer starts, how long one write may take, and the end of both. Must not know what is written.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any, TypeVar

from foundation.errors import first_failure

T = TypeVar("T")
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

NO_CACHE = {"expires": "Fri, 01 Jan 1980 00:00:00 GMT", "pragma": "no-cache", "cache-control": "no-cache, max-age=0, must-revalidate"}


class ClientStalled(Exception):
    """The client took nothing for the idle time. The answer stays unfinished."""


class Exchange:
    """The answer to one request: started by its first byte, finished once."""

    def __init__(self, send: Send, *, idle_s: float) -> None:
        self._send = send
        self._idle_s = idle_s
        self._headers: Mapping[str, str] = {}
        self.started = False
        self.finished = False

    def expect(self, content_type: str) -> None:
        """Say what the answer will be when its first byte is written: 200, of this type, never cached."""
        self._headers = {"content-type": content_type, **NO_CACHE}

    async def write(self, data: bytes) -> None:
        """Send a portion of the answer.

        Raises:
            ClientStalled: the client does not read.
        """
        if not self.started:
            await self._start(HTTPStatus.OK, self._headers)
        if data:
            await self._event({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self) -> None:
        """End the answer; an empty one when nothing was written. Idempotent."""
        if self.finished:
            return
        if not self.started:
            await self._start(HTTPStatus.OK, self._headers)
        self.finished = True
        await self._event({"type": "http.response.body", "body": b"", "more_body": False})

    async def answer(self, status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole answer in words, which git prints after `remote: `. Only before anything was written."""
        body = f"{text}\n".encode()
        fixed = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body)), **NO_CACHE}
        await self._start(status, {**fixed, **(headers or {})})
        self.finished = True
        await self._event({"type": "http.response.body", "body": body, "more_body": False})

    async def _start(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        self.started = True
        pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await self._event({"type": "http.response.start", "status": status.value, "headers": pairs})

    async def _event(self, event: MutableMapping[str, Any]) -> None:
        try:
            async with asyncio.timeout(self._idle_s):
                # Some servers raise for a client that is gone, some do not; whoever watches the request finds out either way.
                with contextlib.suppress(OSError):
                    await self._send(event)
        except TimeoutError as error:
            raise ClientStalled(f"the client took nothing for {self._idle_s:g} s") from error


async def together(main: Awaitable[T], *beside: Awaitable[None]) -> T:
    """Run `main`, and the others beside it for as long as it lasts; the first error of any ends all and is raised."""

    async def run(work: Awaitable[None]) -> None:
        await work

    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(run(work)) for work in beside]
            result = await main
            for task in running:
                task.cancel()
    except BaseExceptionGroup as group:
        raise first_failure(group) from None
    return result
