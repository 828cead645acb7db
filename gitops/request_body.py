"""The body of a git request on its way in: counted, inflated and timed, never held.

Owns the limits of a body. Reads ASGI events. Must not know which service the body is for.
"""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_PORTION_BYTES = 64 * 1024
_FREE_INFLATION_BYTES = 1 << 20
_GZIP = 31


class BodyTooLarge(Exception):
    """The body is larger than allowed, or inflates to more. Answered 413."""


class BodyMalformed(Exception):
    """The body is not what its headers say. Answered 400."""


class BodyStalled(Exception):
    """Nothing came for the idle time. Answered 408."""


class ClientGone(Exception):
    """The client closed the connection before the body's end. There is nobody to answer."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """How much one body may hold after inflation, how much it may inflate, and how long it may pause."""

    max_bytes: int
    inflate_ratio: int
    idle_s: float


class RequestBody:
    """One request's body. Iterate `portions` once and to its end; then `wait_for_disconnect` tells when the client leaves."""

    def __init__(self, receive: Receive, limits: BodyLimits, *, gzipped: bool) -> None:
        self._receive = receive
        self._limits = limits
        self._inflater = zlib.decompressobj(_GZIP) if gzipped else None
        self.complete = False
        self.received_bytes = 0
        self.body_bytes = 0

    async def portions(self) -> AsyncGenerator[bytes, None]:
        """Yield the body in portions of at most 64 KiB when inflated, of the server's size when not.

        Raises:
            BodyTooLarge, BodyMalformed, BodyStalled, ClientGone: as they say; iteration ends there.
        """
        while not self.complete:
            message = await self._next()
            data: bytes = message.get("body", b"")
            self.received_bytes += len(data)
            for portion in self._inflate(data):
                self.body_bytes += len(portion)
                self._check_size()
                yield portion
            self.complete = not message.get("more_body", False)
        if self._inflater is not None and not self._inflater.eof and self.received_bytes:
            raise BodyMalformed("the gzip body is cut off")

    async def wait_for_disconnect(self) -> None:
        """Return when the client has gone. Only after the body's end."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _next(self) -> MutableMapping[str, Any]:
        try:
            async with asyncio.timeout(self._limits.idle_s):
                message = await self._receive()
        except TimeoutError as error:
            raise BodyStalled(f"nothing came for {self._limits.idle_s:g} s") from error
        if message["type"] == "http.disconnect":
            raise ClientGone
        return message

    def _inflate(self, data: bytes) -> Iterator[bytes]:
        if self._inflater is None:
            if data:
                yield data
            return
        while not self._inflater.eof:
            try:
                portion = self._inflater.decompress(data, _PORTION_BYTES)
            except zlib.error as error:
                raise BodyMalformed(f"the gzip body is damaged: {error}") from error
            data = self._inflater.unconsumed_tail
            if portion:
                yield portion
            # A full portion may have more behind it even when all input is taken.
            if not data and len(portion) < _PORTION_BYTES:
                break
        if self._inflater.eof and (data or self._inflater.unused_data):
            raise BodyMalformed("bytes follow the end of the gzip body")

    def _check_size(self) -> None:
        if self.body_bytes > self._limits.max_bytes:
            raise BodyTooLarge(f"the body is larger than {self._limits.max_bytes} bytes")
        if self._inflater is not None and self.body_bytes > max(_FREE_INFLATION_BYTES, self.received_bytes * self._limits.inflate_ratio):
            raise BodyTooLarge(f"the body inflates to more than {self._limits.inflate_ratio} times its size")
