"""A provider that reads media, given the bytes of every part before it is asked.

Owns which parts of a request have bytes, and that a reply says what its model saw for the first time, by digest. Must not know vendors.
"""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from engine.bundle.parts import JsonPart
from engine.media.store import MediaStore
from engine.providers.messages import Message
from engine.providers.port import Chunk, Provider, Reply, Request

Pins = list[dict[str, Any]]
"""What was sent, each as `{url or filePath, sha256, sizeBytes}`."""


class MediaProvider:
    """Asks another provider, with media filled in: `data` (base64), `sha256` and `sizeBytes` in each part, of copies of the messages.

    A reply's `meta` has under `media` what was sent out of files and addresses since the reply before it. A media part that cannot be had is
    MediaUnavailable, raised before anybody is asked.
    """

    def __init__(self, inner: Provider, store: MediaStore) -> None:
        self._inner = inner
        self._store = store

    @property
    def always_streams(self) -> bool:
        """Say what the provider says."""
        return self._inner.always_streams

    async def complete(self, request: Request) -> Reply:
        """Return the reply to `request`, as the port says.

        Raises:
            MediaUnavailable: a part's bytes cannot be had.
        """
        filled = await self._filled(request)
        reply = await self._inner.complete(filled)
        return reply if filled is request else _pinned(reply, filled)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Return the reply to `request` in chunks, as the port says.

        Raises (while iterating):
            MediaUnavailable: a part's bytes cannot be had.
        """
        filled = await self._filled(request)
        async with aclosing(self._inner.stream(filled)) as chunks:
            async for chunk in chunks:
                yield chunk if filled is request or chunk.reply is None else replace(chunk, reply=_pinned(chunk.reply, filled))

    async def close(self) -> None:
        """Close the provider; the store is its owner's."""
        await self._inner.close()

    async def _filled(self, request: Request) -> Request:
        if not any(_has_media(message) for message in request.messages):
            return request
        return replace(request, messages=[await self._with_bytes(message) if _has_media(message) else message for message in request.messages])

    async def _with_bytes(self, message: Message) -> Message:
        result = message.tool_result
        return replace(
            message,
            parts=[await self._store.filled(part) for part in message.parts],
            tool_result=result and replace(result, parts=[await self._store.filled(part) for part in result.parts]),
        )


def _has_media(message: Message) -> bool:
    return any("media" in part for part in _parts(message))


def _parts(message: Message) -> Iterable[JsonPart]:
    return message.parts if message.tool_result is None else (*message.parts, *message.tool_result.parts)


def _pinned(reply: Reply, request: Request) -> Reply:
    pins = _pins(request.messages)
    return replace(reply, meta={**reply.meta, "media": pins}) if pins else reply


def _pins(messages: Sequence[Message]) -> Pins:
    """Return what came from files and addresses since the last reply."""
    last = max((place for place, message in enumerate(messages) if message.role == "assistant"), default=-1)
    found = [part["media"] for message in messages[last + 1 :] for part in _parts(message) if "media" in part]
    pins = [{key: media[key] for key in ("url", "filePath", "sha256", "sizeBytes") if key in media} for media in found]
    return [pin for pin in pins if "url" in pin or "filePath" in pin]
