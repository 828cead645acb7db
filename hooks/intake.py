"""A delivery's body on its way in: counted, timed, and held in bounded memory.

Owns the limits of a body. Must not know what it means.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers

from hooks.errors import Refused, SenderGone

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
_NUMBER = re.compile(r"[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """How large a body may be, how long it may take, and how much of all bodies together is held.

    GitHub and GitLab cap payloads at 25 MB, and every host gives up after about ten seconds. A form is decoded before anything is known of its sender,
    and so is what comes to the address of a host as a whole: both may hold less.
    A body up to `free_bytes` needs no room in `held_bytes`, so large bodies can never keep the usual ones out.
    """

    max_bytes: int = 25 * 1024 * 1024
    early_bytes: int = 1024 * 1024
    deadline_s: float = 10.0
    skip_s: float = 1.0
    held_bytes: int = 64 * 1024 * 1024
    free_bytes: int = 64 * 1024
    retry_after_s: int = 10


class Incoming:
    """One request's body as events. `complete` is true once its end was read."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.complete = False

    async def portion(self) -> bytes:
        """Return the next bytes.

        Raises:
            SenderGone: the connection is closed.
        """
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise SenderGone
        self.complete = not message.get("more_body", False)
        data: bytes = message.get("body", b"")
        return data


class Intake:
    """Reads bodies."""

    def __init__(self, limits: BodyLimits) -> None:
        self.limits = limits
        self._held_bytes = 0

    @asynccontextmanager
    async def read(self, incoming: Incoming, headers: Headers, max_bytes: int) -> AsyncIterator[bytes]:
        """Read a body, and hold its room for the length of the block.

        Raises:
            Refused: 413: larger than `max_bytes`; 408: too slow; 429: too many large ones at once.
            SenderGone: the connection was closed first.
        """
        if _declared(headers) > max_bytes:
            raise _too_large(max_bytes)
        room = _Room()
        try:
            yield await self._all_of(incoming, max_bytes, room)
        finally:
            self._held_bytes -= room.bytes

    async def _all_of(self, incoming: Incoming, max_bytes: int, room: "_Room") -> bytes:
        data = bytearray()
        try:
            async with asyncio.timeout(self.limits.deadline_s):
                while not incoming.complete:
                    data += await incoming.portion()
                    if len(data) > max_bytes:
                        raise _too_large(max_bytes)
                    if len(data) - room.bytes > self.limits.free_bytes:
                        self._hold(len(data) - room.bytes)
                        room.bytes = len(data)
        except TimeoutError as error:
            raise Refused(
                HTTPStatus.REQUEST_TIMEOUT, f"cannot read the delivery: its body did not come within {self.limits.deadline_s:g} s"
            ) from error
        return bytes(data)

    async def skip(self, incoming: Incoming, headers: Headers) -> None:
        """Read what is left of a small body that nobody wants, so that its sender gets the answer rather than a broken connection."""
        left = self.limits.free_bytes
        if _declared(headers) > left:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.limits.skip_s):
                while not incoming.complete and left > 0:
                    left -= len(await incoming.portion())

    def _hold(self, more: int) -> None:
        if self._held_bytes + more > self.limits.held_bytes:
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS,
                "cannot take the delivery: too many large ones are being read",
                hint="send it again",
                headers={"retry-after": str(self.limits.retry_after_s)},
            )
        self._held_bytes += more


@dataclass(slots=True)
class _Room:
    """What one body holds of the room for all."""

    bytes: int = 0


def is_form(headers: Headers, *, forms: bool) -> bool:
    """Say whether a body is a form rather than JSON; `forms`: this host sends them.

    Raises:
        Refused: 415: it is neither, or compressed.
    """
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "cannot read the delivery: it is compressed", hint="send it without a content encoding")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == JSON:
        return False
    if kind == FORM and forms:
        return True
    known = f"{JSON} or {FORM}" if forms else JSON
    raise Refused(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"cannot read the delivery: its content type is not {known}", hint=f"choose {JSON} at the git host"
    )


def _declared(headers: Headers) -> int:
    """Return the length that a body says it has, 0 when it says none."""
    length = headers.get("content-length", "")
    return int(length) if _NUMBER.fullmatch(length) else 0


def _too_large(max_bytes: int) -> Refused:
    return Refused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"cannot read the delivery: it is larger than {max_bytes} bytes",
        hint=f"deliver {JSON}, not a form, to the project's own address /hooks/HOST/NAMESPACE/PROJECT; what is lost is found by the next poll",
    )
