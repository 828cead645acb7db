"""The bytes of media parts: those of a bundle's files, those that stand in a part, and those of an address, which is fetched once.

Owns the limits, and that what comes from the web is what the part says it is. A wrong entry of the cache (one without its file, or whose file is not
what it was) is fetched again, and refused when the address has something else by now. Must not know conversations or vendors.
"""

import asyncio
import base64
import tempfile
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from engine.bundle.parts import JsonPart
from engine.bundle.paths import resolve_inside
from engine.bundle.scenario_reader import MAX_MEDIA_BYTES
from engine.errors import BundleInvalid, MediaUnavailable
from engine.media.cache import MediaCache, digest_of
from engine.media.kinds import mismatch
from engine.tools.web import Web, WebError, WebRequest, shown
from foundation.addresses import AddressPolicy
from foundation.clock import Clock

KEPT_BYTES: Final = 16 * 1024 * 1024
"""Encoded media that stay in memory, so that the thousandth item with the same picture reads no file."""

ASK_AGAIN_S: Final = 5.0
"""So long an address that gave nothing is taken to give nothing: thousands of items do not each wait for it."""

_AT_ONCE: Final = 4
_GOOD: Final = 200
_MAY_COME_BACK = frozenset((408, 425, 429, 500, 502, 503, 504))
T = TypeVar("T")
_REMEDY = "put it into the bundle as a file (file_path), or let it be fetched once where there is a network: later runs take it from the cache"


@dataclass(frozen=True, slots=True)
class Media:
    """Bytes that a provider can be sent: encoded (base64), with their digest (SHA-256, hexadecimal) and size."""

    data: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why an address or a file gave nothing, and until when nobody asks again, on the clock."""

    error: MediaUnavailable
    until: float


class MediaStore:
    """Where a runner's providers get media from. `cache` is the directory of what was fetched; None: one of this process's own, gone when it ends.

    Used by many conversations at once: each address and each file is read once, however many ask.
    """

    def __init__(self, root: Path, cache: Path | None, policy: AddressPolicy, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._directory = cache
        self._own: tempfile.TemporaryDirectory[str] | None = None
        self._web = Web(policy)
        self._kept: OrderedDict[str, Media] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}
        self._failed: dict[str, _Failure] = {}
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def filled(self, part: JsonPart) -> JsonPart:
        """Return a part with its bytes in it: `data`, `sha256`, `sizeBytes`; a text part as it is.

        Raises:
            MediaUnavailable: there are none; the message names the file or the address.
        """
        media = part.get("media")
        if not isinstance(media, Mapping):
            return part
        found = await self._find(media)
        return {**part, "media": {**media, "data": found.data, "sha256": found.sha256, "sizeBytes": found.size_bytes}}

    async def bytes_of(self, part: JsonPart) -> bytes:
        """Return the bytes of a media part.

        Raises:
            MediaUnavailable: as `filled`.
        """
        return base64.b64decode((await self.filled(part))["media"]["data"])

    async def close(self) -> None:
        """Close connections, and remove a cache of this process's own. Idempotent."""
        await self._web.close()
        if self._own is not None:
            self._own.cleanup()
            self._own = None

    async def _find(self, media: Mapping[str, Any]) -> Media:
        if media.get("data"):
            return await self._blocking(_encoded, _decoded(str(media["data"])))
        if file := str(media.get("filePath") or ""):
            return await self._once(f"file:{file}", lambda: self._read(file))
        url = str(media.get("url") or "")
        if url.startswith("data:"):
            return await self._blocking(_encoded, _decoded(url.partition(",")[2]))
        if not url.startswith(("http://", "https://")):
            raise MediaUnavailable(f"cannot send a part of a message: it has no file, no data and no address of http or https ('{shown(url)[:80]}')")
        declared = str(media.get("mimeType") or "")
        return await self._once(f"{declared} {url}", lambda: self._fetch(url, declared))

    async def _once(self, key: str, get: Callable[[], Awaitable[bytes]]) -> Media:
        """Return what `get` gave, then or now; while one asks, the others wait."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            if (kept := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return kept
            if (failure := self._failed.get(key)) is not None and self._clock.monotonic() < failure.until:
                raise failure.error
            try:
                found = await self._blocking(_encoded, await get())
            except MediaUnavailable as error:
                self._failed[key] = _Failure(error, self._clock.monotonic() + (ASK_AGAIN_S if error.transient else float("inf")))
                raise
            self._keep(key, found)
            return found

    def _keep(self, key: str, media: Media) -> None:
        self._kept[key] = media
        while len(self._kept) > 1 and sum(len(kept.data) for kept in self._kept.values()) > KEPT_BYTES:
            self._kept.popitem(last=False)

    async def _read(self, file: str) -> bytes:
        def read() -> bytes:
            with resolve_inside(self._root, file).open("rb") as stream:
                return stream.read(MAX_MEDIA_BYTES + 1)

        try:
            content = await self._blocking(read)
        except (BundleInvalid, OSError) as error:
            cause = error.message if isinstance(error, BundleInvalid) else (error.strerror or "it cannot be read").lower()
            raise MediaUnavailable(f"cannot send the media '{file}': {cause}", hint="the path is relative to the bundle") from error
        if len(content) > MAX_MEDIA_BYTES:
            raise MediaUnavailable(f"cannot send the media '{file}': it is over the limit of {MAX_MEDIA_BYTES >> 20} MiB")
        return content

    async def _fetch(self, url: str, declared: str) -> bytes:
        """Return what an address has: what it had when it was first fetched, by the cache."""
        cache = self._cache()
        known = await self._blocking(cache.entry, url)
        content = None if known is None else await self._blocking(cache.content, known.sha256)
        fetched = content is None
        if content is None:
            content = await self._ask(url)
        if fault := mismatch(declared, content):
            raise MediaUnavailable(f"cannot send the media '{shown(url)}': {fault}", hint="change the part's mime_type, or its url")
        if known is not None and fetched and digest_of(content) != known.sha256:
            fault = f"it was {known.sha256[:12]} when it was first fetched, and is {digest_of(content)[:12]} now"
            raise MediaUnavailable(f"cannot send the media '{shown(url)}': {fault}", hint=f"remove {known.file} to take what it is now")
        if not fetched:
            return content
        entry = await self._blocking(cache.keep, url, content)
        first = None if entry.sha256 == digest_of(content) else await self._blocking(cache.content, entry.sha256)
        return content if first is None else first

    async def _ask(self, url: str) -> bytes:
        try:
            answer = await self._web.fetch(WebRequest("GET", url, {"Accept": "*/*"}, max_bytes=MAX_MEDIA_BYTES))
        except WebError as error:
            raise MediaUnavailable(f"cannot fetch media: {error.message}", hint=error.hint or _REMEDY, transient=not error.hint) from error
        if answer.status != _GOOD:
            said = f"'{shown(url)}' answers {answer.status} {answer.reason}".rstrip()
            raise MediaUnavailable(f"cannot fetch media: {said}", hint=_REMEDY, transient=answer.status in _MAY_COME_BACK)
        return answer.body

    def _cache(self) -> MediaCache:
        if self._directory is None:
            self._own = tempfile.TemporaryDirectory(prefix="arena-media-")
            self._directory = Path(self._own.name)
        return MediaCache(self._directory)

    async def _blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        async with self._gate:
            return await asyncio.to_thread(function, *arguments)


def _encoded(content: bytes) -> Media:
    return Media(base64.b64encode(content).decode("ascii"), digest_of(content), len(content))


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError as error:
        raise MediaUnavailable("cannot send a part of a message: its data is not base64") from error
