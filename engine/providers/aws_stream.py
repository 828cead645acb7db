"""AWS event streams out of bytes (application/vnd.amazon.eventstream), as Bedrock sends a model's events in them.

Owns the framing, its checksums, and where Bedrock puts an event of the model's protocol; an exception becomes an event `error` of that protocol's shape.
Must not know what the events say.
"""

import binascii
import json
import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Any, Final

from engine.errors import ProviderError
from engine.providers.wire import Event

MAX_MESSAGE_BYTES: Final = 25 << 20
"""The longest message that is read; AWS allows 24 MiB of payload."""

_PRELUDE: Final = Struct(">III")
_CRC: Final = Struct(">I")
_OVERHEAD_BYTES: Final = _PRELUDE.size + _CRC.size
_STRING: Final = 7
_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value by its type; types 6 and 7 (bytes, text) carry their length in two bytes."""


class AwsEventReader:
    """Reads one stream. `feed` it what comes; what the `end` leaves is a message that was cut off, and no event."""

    __slots__ = ("_buffer", "_headers")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._headers: tuple[bytes, dict[str, str]] = (b"", {})

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that `data` completes, in order.

        Raises:
            ProviderError: a checksum or a length is wrong, or a message is no event (`protocol`).
        """
        self._buffer += data
        events = []
        while (message := self._next()) is not None:
            event = _event(*message)
            if event is not None:
                events.append(event)
        return events

    def end(self) -> list[Event]:
        """Return nothing: a message is complete, or it is none."""
        self._buffer.clear()
        return []

    def _next(self) -> tuple[dict[str, str], bytes] | None:
        """Return headers and payload of the next message, None until it is there."""
        buffer = self._buffer
        if len(buffer) < _PRELUDE.size:
            return None
        size, headers_size, crc = _PRELUDE.unpack_from(buffer)
        if zlib.crc32(buffer[:8]) != crc:
            raise _unreadable("the checksum of a message's beginning is wrong")
        if not _OVERHEAD_BYTES <= size <= MAX_MESSAGE_BYTES or headers_size > size - _OVERHEAD_BYTES:
            raise _unreadable(f"a message says that it has {size} bytes")
        if len(buffer) < size:
            return None
        message = bytes(buffer[:size])
        del buffer[:size]
        if zlib.crc32(message[: -_CRC.size]) != _CRC.unpack_from(message, size - _CRC.size)[0]:
            raise _unreadable("the checksum of a message is wrong")
        begin = _PRELUDE.size + headers_size
        return self._read(message[_PRELUDE.size : begin]), message[begin : -_CRC.size]

    def _read(self, headers: bytes) -> dict[str, str]:
        """Return the headers, which are the same in message after message."""
        if headers != self._headers[0]:
            self._headers = (headers, dict(_headers(headers)))
        return self._headers[1]


def _headers(data: bytes) -> Iterator[tuple[str, str]]:
    """Return the headers that are text; the others are passed over."""
    place = 0
    try:
        while place < len(data):
            size = data[place]
            name = data[place + 1 : place + 1 + size].decode()
            kind = data[place + 1 + size]
            place += 2 + size
            if kind in _SIZES:
                place += _SIZES[kind]
                continue
            size = int.from_bytes(data[place : place + 2], "big")
            value = data[place + 2 : place + 2 + size]
            place += 2 + size
            if kind == _STRING:
                yield name, value.decode()
    except (IndexError, UnicodeDecodeError):
        raise _unreadable("a header of a message is broken") from None
    if place != len(data):
        raise _unreadable("a header of a message is broken")


def _event(headers: dict[str, str], payload: bytes) -> Event | None:
    """Return the event of a message; None for one that the model's protocol does not know."""
    kind = headers.get(":message-type", "event")
    if kind == "exception":
        return _failure(headers.get(":exception-type", ""), _words(payload))
    if kind == "error":
        return _failure(headers.get(":error-code", ""), headers.get(":error-message", ""))
    if headers.get(":event-type") != "chunk":
        return None
    try:
        wrapped = json.loads(payload)["bytes"]
        return Event("", binascii.a2b_base64(wrapped, strict_mode=True).decode())
    except (KeyError, TypeError, ValueError, RecursionError):
        raise _unreadable("a chunk has no bytes") from None


def _failure(code: str, words: str) -> Event:
    return Event("error", json.dumps({"type": "error", "error": {"type": code, "message": words}}))


def _words(payload: bytes) -> str:
    text = payload.decode("utf-8", "replace")
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    said = content.get("message") or content.get("Message") if isinstance(content, dict) else None
    return said if isinstance(said, str) else text


def _unreadable(problem: str) -> ProviderError:
    return ProviderError(f"cannot read the stream: {problem}", kind="protocol", transient=True)
