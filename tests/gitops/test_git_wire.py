"""pkt-lines, the texts of a push, and slots: what needs no process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops import pktline
from gitops.pktline import BadLine, LineReader
from gitops.receive_protocol import PushRequestReader, ReportFilter, refusal
from gitops.slots import NoSlot, Slots

ZERO, ONE = "0" * 40, "1" * 40
COMMAND = f"{ZERO} {ONE} refs/heads/main\0report-status side-band-64k object-format=sha1 agent=git/2".encode()


@given(st.lists(st.one_of(st.none(), st.binary(max_size=200))), st.integers(1, 50))
def test_lines_survive_any_fragmentation(lines: list[bytes | None], size: int) -> None:
    """However the bytes arrive, the same lines come out."""
    data = b"".join(pktline.FLUSH if line is None else pktline.encode(line) for line in lines)
    reader = LineReader()
    found = []
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
        found += list(reader.lines())
    assert found == lines
    assert reader.rest == b""


@pytest.mark.parametrize("data", [b"zzzz", b"0001", b"0003", b"fff1", b"+0a1", b"-001", b" 00a"])
def test_what_is_no_length(data: bytes) -> None:
    """A length that no line can have is an error at once."""
    reader = LineReader()
    reader.feed(data)
    with pytest.raises(BadLine):
        list(reader.lines())


def test_push_request_keeps_its_bytes() -> None:
    """What is read of a request and what follows it are exactly what receive-pack must get."""
    head = pktline.encode(b"shallow " + ONE.encode()) + pktline.encode(COMMAND) + pktline.FLUSH
    reader = PushRequestReader()
    request = None
    for byte in head:
        assert request is None
        request = reader.feed(bytes([byte]))
    assert request is not None
    assert (request.head, request.tail) == (head, b"")
    assert [(command.name, command.deletes) for command in request.commands] == [("refs/heads/main", False)]
    assert "side-band-64k" in request.capabilities


def test_push_request_gives_back_what_follows() -> None:
    """The pack's first bytes, read together with the commands, are not lost."""
    request = PushRequestReader().feed(pktline.encode(COMMAND) + pktline.FLUSH + b"PACK\0\0\0\2")
    assert request is not None
    assert request.tail == b"PACK\0\0\0\2"


def test_refusal_without_side_band_is_a_bare_report() -> None:
    """A client that cannot print still learns the cause of each ref."""
    request = PushRequestReader().feed(pktline.encode(f"{ZERO} {ONE} refs/heads/dev\0report-status".encode()) + pktline.FLUSH)
    assert request is not None
    assert (
        refusal(request, {b"refs/heads/dev": "no"}, ["words"]) == pktline.encode(b"unpack ok\n") + pktline.encode(b"ng refs/heads/dev no\n") + b"0000"
    )


def test_filter_holds_the_report_back() -> None:
    """Progress passes at once; the report comes last, after our words, with its bare unpacker error replaced."""
    request = PushRequestReader().feed(pktline.encode(COMMAND) + pktline.FLUSH)
    assert request is not None
    watched = ReportFilter(request)
    report = pktline.encode(b"unpack index-pack abnormal exit\n") + pktline.encode(b"ng refs/heads/main unpacker error\n") + pktline.FLUSH
    progress = pktline.encode(b"\x02error: object x: y\n")
    answer = progress + b"".join(pktline.encode_band(1, report)) + pktline.FLUSH
    assert b"".join(watched.feed(answer[index : index + 7]) for index in range(0, len(answer), 7)) == progress
    assert watched.report() == {"unpack": "index-pack abnormal exit", "refs/heads/main": "unpacker error"}
    assert watched.said == ["error: object x: y"]
    ending = watched.finish(words=["error: because"], unpack="because")
    assert ending.startswith(pktline.encode(b"\x02error: because\n"))
    assert b"unpack because\n" in ending
    assert b"abnormal" not in ending


@asynccontextmanager
async def holding(slots: Slots, *keys: str) -> AsyncIterator[None]:
    """Hold one slot for each key."""
    if not keys:
        yield
        return
    async with slots.hold(keys[0], wait_s=1), holding(slots, *keys[1:]):
        yield


async def test_slot_of_another_key_is_free() -> None:
    """A full repository delays nobody else."""
    slots = Slots(total=3, per_key=1, waiting=4)
    async with holding(slots, "a"):
        waiter = asyncio.create_task(_pass(slots, "a"))
        await asyncio.sleep(0)
        async with slots.hold("b", wait_s=0.01):
            assert not waiter.done()
    await waiter


async def _pass(slots: Slots, key: str) -> None:
    async with slots.hold(key, wait_s=5):
        pass


async def test_full_queue_refuses_at_once() -> None:
    """Beyond the queue there is no waiting."""
    slots = Slots(total=1, per_key=1, waiting=1)
    async with holding(slots, "a"):
        waiter = asyncio.create_task(_pass(slots, "b"))
        await asyncio.sleep(0)
        with pytest.raises(NoSlot, match="too many"):
            await _pass(slots, "c")
    await waiter


async def test_cancelled_waiter_leaves_the_queue() -> None:
    """A client that stops waiting takes no slot with it."""
    slots = Slots(total=1, per_key=1, waiting=1)
    async with holding(slots, "a"):
        waiter = asyncio.create_task(_pass(slots, "b"))
        await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.wait([waiter])
        with pytest.raises(NoSlot, match="no slot came free"):
            async with slots.hold("c", wait_s=0.01):
                pass
    await _pass(slots, "d")
