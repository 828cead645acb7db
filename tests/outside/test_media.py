"""Media on their way to a provider: files of the bundle, addresses, the cache by digest, and what is refused."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from engine.errors import MediaUnavailable
from engine.media import MediaProvider, MediaStore
from engine.media.kinds import mismatch
from engine.providers.messages import Message, ToolResult
from engine.providers.port import Chunk, Reply, Request
from foundation.addresses import AddressPolicy
from foundation.clock import FakeClock
from tests.outside.reaching import Serve

PNG = b"\x89PNG\r\n\x1a\n" + b"a picture"
DIGEST = hashlib.sha256(PNG).hexdigest()
INTERNET = AddressPolicy((ip_network("127.0.0.0/8"),))
"""Loopback plays the internet."""


StoreOf = Callable[..., MediaStore]


@pytest.fixture
async def store_of(tmp_path: Path) -> AsyncIterator[StoreOf]:
    """Return a maker of stores of one bundle with one cache, closed at the end."""
    made: list[MediaStore] = []

    def make(policy: AddressPolicy = INTERNET, clock: FakeClock | None = None) -> MediaStore:
        made.append(MediaStore(tmp_path, tmp_path / "cache", policy, clock or FakeClock()))
        return made[-1]

    yield make
    for store in made:
        await store.close()


def image(**source: str) -> dict[str, Any]:
    """Return an image part."""
    return {"type": "image", "media": {"mimeType": "image/png", **source}}


class Counting:
    """A handler that gives `content`, and counts how often it was asked."""

    def __init__(self, content: bytes = PNG, **more: Any) -> None:
        self.content, self.more, self.asked = content, more, 0

    async def answer(self, request: web.Request) -> web.Response:
        """Answer."""
        del request
        self.asked += 1
        await asyncio.sleep(0)
        return web.Response(body=self.content, **self.more)


class Seeing:
    """A provider that keeps what it is asked."""

    always_streams = False

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        """Reply."""
        self.requests.append(request)
        return Reply("seen", meta={"own": 1})

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Reply in chunks."""
        self.requests.append(request)
        yield Chunk("se")
        yield Chunk("en", Reply("seen"))

    async def close(self) -> None:
        """Hold nothing."""


async def test_an_address_is_fetched_once(store_of: StoreOf, serve: Serve) -> None:
    """However many conversations need a picture at once, its address is asked once."""
    handler = Counting()
    store, part = store_of(), image(url=await serve(p=handler.answer) + "/p")
    filled = await asyncio.gather(*(store.filled(part) for _ in range(20)))
    assert handler.asked == 1
    assert all(each["media"] == part["media"] | {"data": base64.b64encode(PNG).decode(), "sha256": DIGEST, "sizeBytes": len(PNG)} for each in filled)


async def test_the_cache_serves_without_network(store_of: StoreOf, serve: Serve) -> None:
    """Another process with the same cache asks nobody, even where no address may be reached."""
    part = image(url=await serve(p=Counting().answer) + "/p")
    first, offline = store_of(), store_of(AddressPolicy())
    await first.filled(part)
    assert await offline.bytes_of(part) == PNG


async def test_the_first_answer_stands(tmp_path: Path, store_of: StoreOf, serve: Serve) -> None:
    """What an address had when it was first fetched is what every later item gets; its entry's removal makes it be fetched anew."""
    handler = Counting()
    part = image(url=await serve(p=handler.answer) + "/p")
    await store_of().filled(part)
    handler.content = PNG + b" of today"
    assert await store_of().bytes_of(part) == PNG
    for entry in (tmp_path / "cache" / "urls").iterdir():
        entry.unlink()
    assert await store_of().bytes_of(part) == PNG + b" of today"


async def test_bytes_that_were_lost_are_refused_when_they_changed(tmp_path: Path, store_of: StoreOf, serve: Serve) -> None:
    """An entry whose bytes are gone, or no longer what they were, is fetched again, and must have its digest."""
    handler = Counting()
    part = image(url=await serve(p=handler.answer) + "/p")
    await store_of().filled(part)
    blob = next((tmp_path / "cache" / "sha256").glob("*/*"))
    blob.write_bytes(b"spoiled")
    assert await store_of().bytes_of(part) == PNG
    blob.unlink()
    handler.content = PNG + b" of today"
    with pytest.raises(MediaUnavailable, match=f"was {DIGEST[:12]} when it was first fetched") as refused:
        await store_of().filled(part)
    assert "urls" in refused.value.hint


async def test_a_directory_that_is_gone_does_not_come_back(tmp_path: Path, serve: Serve) -> None:
    """Where what holds the cache is gone, as the directory of a run that was deleted, nothing is made: the item is an error."""
    store = MediaStore(tmp_path, tmp_path / "run" / "media", INTERNET, FakeClock())
    with pytest.raises(MediaUnavailable, match="cannot keep media") as refused:
        await store.filled(image(url=await serve(p=Counting().answer) + "/p"))
    assert "--media-cache" in refused.value.hint
    assert not (tmp_path / "run").exists()
    await store.close()


@pytest.mark.parametrize(
    ("policy", "url", "why"),
    [
        (AddressPolicy(), "http://127.0.0.1:9/p", "loopback"),
        (INTERNET, "http://169.254.169.254/latest/meta-data", "metadata"),
        (INTERNET, "http://10.0.0.1/p", "private"),
        (INTERNET, "http://user:secret@127.0.0.1:9/p", "credential"),
        (INTERNET, "file:///etc/passwd", "no address of http"),
        (INTERNET, "mock://picture", "no address of http"),
    ],
)
async def test_addresses_that_are_refused(store_of: StoreOf, policy: AddressPolicy, url: str, why: str) -> None:
    """Only public addresses are asked, and those that an operator allows; the message says why not, and shows no secret."""
    with pytest.raises(MediaUnavailable, match=why) as refused:
        await store_of(policy).filled(image(url=url))
    assert not refused.value.transient
    assert "secret" not in refused.value.message


async def test_a_redirect_is_a_new_address(store_of: StoreOf, serve: Serve) -> None:
    """A redirect is followed where its target may be reached, and refused where not."""

    async def onward(request: web.Request) -> web.Response:
        raise web.HTTPFound(request.query["to"])

    base = await serve(p=Counting().answer, r=onward)
    store = store_of()
    assert await store.bytes_of(image(url=f"{base}/r?to=/p")) == PNG
    with pytest.raises(MediaUnavailable, match="private"):
        await store.filled(image(url=f"{base}/r?to=http://192.168.0.1/p"))


@pytest.mark.parametrize(
    ("handler", "why", "transient"),
    [
        (Counting(b"<!DOCTYPE html><p>Please log in"), "it is text/html, not image/png", False),
        (Counting(b"\xff\xd8\xff\xe0 a jpeg"), "it is image/jpeg, not image/png", False),
        (Counting(b"no picture"), "it is not image/png", False),
        (Counting(b""), "it is empty", False),
        (Counting(status=404), "404", False),
        (Counting(status=503), "503", True),
        (Counting(PNG + bytes(21 << 20)), "more than", True),
    ],
    ids=["a page", "another picture", "no picture", "nothing", "not found", "out of order", "too large"],
)
async def test_answers_that_are_no_picture(tmp_path: Path, store_of: StoreOf, serve: Serve, handler: Counting, why: str, *, transient: bool) -> None:
    """What is not what the part declares, is too large or is no answer is an error that names the address without its query, and is not kept."""
    url = await serve(p=handler.answer) + "/p"
    with pytest.raises(MediaUnavailable, match=why) as refused:
        await store_of().filled(image(url=f"{url}?token=secret"))
    assert url in refused.value.message
    assert "secret" not in refused.value.message
    assert refused.value.hint
    assert refused.value.transient is transient
    assert not (tmp_path / "cache").exists()


async def test_an_address_that_is_out_is_not_asked_by_every_item(store_of: StoreOf, serve: Serve) -> None:
    """Who fails is asked again only after a while; what is wrong for good is never asked again."""
    handler, clock = Counting(status=503), FakeClock()
    store, part = store_of(clock=clock), image(url=await serve(p=handler.answer) + "/p")
    for _ in range(3):
        with pytest.raises(MediaUnavailable):
            await store.filled(part)
    assert handler.asked == 1
    await clock.advance(6)
    handler.more = {}
    assert await store.bytes_of(part) == PNG


async def test_files_and_data(tmp_path: Path, store_of: StoreOf) -> None:
    """A file of the bundle and data in a part or in a data address need no network; what leaves the bundle is refused."""
    (tmp_path / "p.png").write_bytes(PNG)
    text = base64.b64encode(PNG).decode()
    store = store_of(AddressPolicy())
    parts = [image(filePath="p.png"), image(data=text), image(url=f"data:image/png;base64,{text}")]
    assert [(await store.filled(part))["media"]["sha256"] for part in parts] == [DIGEST] * 3
    for part in (image(filePath="gone.png"), image(filePath="../p.png"), image(data="%"), image()):
        with pytest.raises(MediaUnavailable):
            await store.filled(part)
    assert await store.filled({"type": "text", "text": "t"}) == {"type": "text", "text": "t"}


async def test_a_cache_of_the_process_own_goes_with_it(tmp_path: Path, serve: Serve) -> None:
    """Without a directory what is fetched lasts as long as the process, and is removed with it."""
    store, part = MediaStore(tmp_path, None, INTERNET, FakeClock()), image(url=await serve(p=Counting().answer) + "/p")
    assert await store.bytes_of(part) == PNG
    directory = store._directory
    await store.close()
    assert directory is not None
    assert not directory.exists()


@pytest.mark.parametrize(
    ("declared", "content", "fault"),
    [
        ("image/jpg", b"\xff\xd8\xff", ""),
        ("audio/mp3", b"ID3", ""),
        ("IMAGE/PNG; q=1", PNG, ""),
        ("audio/mp4", b"\0\0\0\x20ftypisom", ""),
        ("audio/L16", b"\0\1\2", ""),
        ("text/plain", b"<b>bold", ""),
        ("text/plain", b"  <html>", "it is text/html, not text/plain"),
        ("text/html", b"<html>", ""),
        ("application/pdf", b"%PDF-1.7", ""),
        ("audio/wav", b"RIFF\0\0\0\0WEBP", "it is image/webp, not audio/wav"),
    ],
)
def test_declared_types(declared: str, content: bytes, fault: str) -> None:
    """Other names of a type and containers are understood; a type without a mark is believed unless the bytes have another's."""
    assert mismatch(declared, content) == fault


async def test_a_provider_is_asked_with_bytes(tmp_path: Path, store_of: StoreOf) -> None:
    """The provider sees copies with bytes; the conversation's messages stay as they were; the reply names what was new by digest."""
    (tmp_path / "p.png").write_bytes(PNG)
    seeing, store = Seeing(), store_of()
    messages = [
        Message("user", "old", parts=[image(filePath="p.png")]),
        Message("assistant", "yes"),
        Message("tool", "", tool_result=ToolResult("1", "t", "", parts=[image(filePath="p.png")])),
        Message("user", "new", parts=[{"type": "text", "text": "new"}, image(data=base64.b64encode(PNG).decode())]),
    ]
    reply = await MediaProvider(seeing, store).complete(Request(messages))
    sent = seeing.requests[0].messages
    result = sent[2].tool_result
    assert result is not None
    assert [part["media"]["sha256"] for part in (sent[0].parts[0], result.parts[0], sent[3].parts[1])] == [DIGEST] * 3
    assert "data" not in messages[0].parts[0]["media"]
    assert reply.meta == {"own": 1, "media": [{"filePath": "p.png", "sha256": DIGEST, "sizeBytes": len(PNG)}]}


async def test_a_stream_is_asked_with_bytes(tmp_path: Path, store_of: StoreOf) -> None:
    """A stream is filled as a whole reply is, and its last chunk names the digests."""
    (tmp_path / "p.png").write_bytes(PNG)
    seeing = Seeing()
    chunks = [chunk async for chunk in MediaProvider(seeing, store_of()).stream(Request([Message("user", parts=[image(filePath="p.png")])]))]
    assert [chunk.text for chunk in chunks] == ["se", "en"]
    assert chunks[-1].reply is not None
    assert chunks[-1].reply.meta["media"][0]["sha256"] == DIGEST
    assert seeing.requests[0].messages[0].parts[0]["media"]["data"]


async def test_text_is_passed_on_as_it_is(store_of: StoreOf) -> None:
    """A request without media goes on unchanged, as the same value."""
    seeing, request = Seeing(), Request([Message("user", "hello")])
    await MediaProvider(seeing, store_of()).complete(request)
    assert seeing.requests == [request]
    assert seeing.requests[0] is request


async def test_nobody_is_asked_without_the_bytes(store_of: StoreOf) -> None:
    """A part that cannot be had ends the item before the provider is asked."""
    seeing = Seeing()
    with pytest.raises(MediaUnavailable, match=r"gone\.png"):
        await MediaProvider(seeing, store_of()).complete(Request([Message("user", parts=[image(filePath="gone.png")])]))
    assert not seeing.requests
