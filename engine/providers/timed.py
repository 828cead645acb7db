"""Requests that go out at once, and know when: the times of an answer are those of the wire.

A process that holds hundreds of conversations reads an answer after whatever the others have to do, and what it has made of a request waits for them as
well. Neither is the model's time, so both ends are taken where the bytes pass. Must not know what is sent, nor to whom.
"""

import asyncio
import types
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import aiohttp
from aiohttp.payload import BytesPayload

from foundation.clock import SystemClock

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.connector import Connection

_CLOCK: Final = SystemClock()


@dataclass(slots=True)
class Times:
    """When a request was given to the system, and when bytes of its answer came last, on the monotonic clock.

    A body that the connection does not take at once is being sent when it counts as sent.
    """

    sent: float = 0.0
    came: float = 0.0

    @property
    def took_s(self) -> float:
        """Return the seconds from the request to what has come of the answer so far."""
        return max(0.0, self.came - self.sent)


class TimedResponse(aiohttp.ClientResponse):
    """An answer with its times."""

    times: Times


class TimedRequest(aiohttp.ClientRequest):
    """A request whose body, if it is bytes, is on its way when the step ends that makes it, or as much of it as the connection takes.

    Up to Python 3.11 aiohttp leaves it to a task, which has its turn after everything that other conversations have ready: hundreds of them would work in
    step, and wait in step.
    """

    async def send(self, conn: "Connection") -> aiohttp.ClientResponse:
        """Send the request; returns before there is an answer."""
        times = Times()
        if conn.transport is not None:
            _arrivals(conn.transport).times = times
        response = cast("TimedResponse", await super().send(conn))
        times.sent = times.came = _CLOCK.monotonic()
        response.times = times
        return response

    def write_bytes(self, writer: "AbstractStreamWriter", conn: "Connection", content_length: int | None = None) -> Coroutine[Any, Any, None]:
        """Write the body, or return what writes it."""
        writing = super().write_bytes(writer, conn, content_length)
        if not isinstance(self.body, BytesPayload):
            return writing
        try:
            waits_for = writing.send(None)
        except StopIteration:
            return _nothing()
        return _rest(writing, waits_for)


class _Arrivals(asyncio.Protocol):
    """Passes what a connection tells to aiohttp, and notes when bytes come."""

    def __init__(self, told: asyncio.Protocol) -> None:
        self._told = told
        self.times = Times()

    def data_received(self, data: bytes) -> None:
        self.times.came = _CLOCK.monotonic()
        self._told.data_received(data)

    def eof_received(self) -> bool | None:
        return self._told.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._told.connection_lost(exc)

    def pause_writing(self) -> None:
        self._told.pause_writing()

    def resume_writing(self) -> None:
        self._told.resume_writing()


def _arrivals(transport: asyncio.Transport) -> _Arrivals:
    """Return what notes the arrivals of a connection, put in place at its first request."""
    protocol = transport.get_protocol()
    if not isinstance(protocol, _Arrivals):
        protocol = _Arrivals(cast("asyncio.Protocol", protocol))
        transport.set_protocol(protocol)
    return protocol


async def _nothing() -> None:
    """Do what is left of what has been done."""


async def _rest(coroutine: Coroutine[Any, Any, None], waits_for: object) -> None:
    """Go on with a coroutine that has begun elsewhere and waits, as if it had begun here."""
    await _going_on(coroutine, waits_for)


@types.coroutine
def _going_on(coroutine: Coroutine[Any, Any, None], waits_for: object) -> Generator[Any, Any, None]:
    try:
        yield waits_for
    except BaseException:
        coroutine.close()
        raise
    yield from coroutine.__await__()
