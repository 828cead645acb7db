"""AWS event streams: frames, checksums, headers and what breaks them."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ProviderError
from engine.providers.aws_stream import AwsEventReader
from engine.providers.wire import Event
from tests.providers.vendor_streams import CLAUDE, chunk_of, exception, framed, message

CHUNK = {":event-type": "chunk", ":message-type": "event"}
OTHERS = b"".join(
    struct.pack(">B", 1) + b"%d" % kind + bytes([kind]) + value
    for kind, value in ((0, b""), (1, b""), (2, b"x"), (3, b"xx"), (4, b"xxxx"), (5, b"x" * 8), (6, b"\0\3abc"), (8, b"x" * 8), (9, b"x" * 16))
)


def read(data: bytes) -> list[Event]:
    """Return the events of a stream that came at once."""
    return AwsEventReader().feed(data)


def test_chunks_are_events_of_the_models_protocol() -> None:
    """What a chunk wraps is the event, without a name; messages of other kinds are none."""
    assert read(message({":event-type": "initial-response"}, b"{}") + chunk_of({"type": "ping"})) == [Event("", '{"type": "ping"}')]


def test_headers_of_every_type_are_read() -> None:
    """Headers that are no text are passed over, each by its size."""
    assert read(message(CHUNK, b'{"bytes": "e30="}', OTHERS)) == [Event("", "{}")]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(exception("throttlingException", "slow down"), id="an exception"),
        pytest.param(message({":message-type": "error", ":error-code": "throttlingException", ":error-message": "slow down"}, b""), id="an error"),
        pytest.param(message({":message-type": "exception", ":exception-type": "throttlingException"}, b"slow down"), id="no JSON"),
    ],
)
def test_exceptions_are_error_events(data: bytes) -> None:
    """Exceptions have the shape of the model's own errors."""
    assert read(data) == [Event("error", '{"type": "error", "error": {"type": "throttlingException", "message": "slow down"}}')]


@given(cuts=st.lists(st.integers(0, 4000), max_size=12))
def test_any_cut_gives_the_same_events(cuts: list[int]) -> None:
    """Frames arrive in any pieces."""
    data = framed(CLAUDE)
    ends = [*sorted(cut % len(data) for cut in cuts), len(data)]
    reader = AwsEventReader()
    pieces = [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    assert [event for piece in pieces for event in reader.feed(piece)] == read(data)
    assert reader.end() == []


def test_any_wrong_byte_is_found() -> None:
    """A checksum covers every byte: none can change an event."""
    data = chunk_of({"type": "ping"})
    for place in range(len(data)):
        broken = bytearray(data)
        broken[place] ^= 0x40
        with pytest.raises(ProviderError) as unreadable:
            read(bytes(broken))
        assert (unreadable.value.kind, unreadable.value.transient) == ("protocol", True)


def sealed(size: int, headers_size: int, rest: bytes = b"") -> bytes:
    """Return a message whose sizes lie, with right checksums."""
    prelude = struct.pack(">II", size, headers_size)
    begun = prelude + struct.pack(">I", zlib.crc32(prelude)) + rest
    return begun + struct.pack(">I", zlib.crc32(begun))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(sealed(15, 0), "says that it has 15 bytes", id="too short"),
        pytest.param(sealed(1 << 31, 0), "says that it has", id="too long"),
        pytest.param(sealed(16, 1), "says that it has 16 bytes", id="headers beyond the end"),
        pytest.param(sealed(20, 4, b"\x09abc"), "a header", id="a header beyond the end"),
        pytest.param(sealed(19, 3, b"\x01a\x0a"), "a header", id="a header of an unknown type"),
        pytest.param(message(CHUNK, b"{}"), "no bytes", id="a chunk without bytes"),
        pytest.param(message(CHUNK, b"[]"), "no bytes", id="a chunk that is a list"),
        pytest.param(message(CHUNK, b'{"bytes": "%%%"}'), "no bytes", id="bytes that are none"),
        pytest.param(message(CHUNK, b'{"bytes": "/w=="}'), "no bytes", id="bytes that are no text"),
    ],
)
def test_what_is_no_message_is_an_error(data: bytes, words: str) -> None:
    """Lengths, headers and chunks of another form are errors, and cost no memory."""
    with pytest.raises(ProviderError, match=words) as unreadable:
        read(data)
    assert unreadable.value.kind == "protocol"


def test_botocore_reads_the_same_frames() -> None:
    """The frames of these tests are AWS's: its own library reads them too."""
    eventstream = pytest.importorskip("botocore.eventstream")
    buffer = eventstream.EventStreamBuffer()
    buffer.add_data(framed(CLAUDE) + exception("throttlingException", "slow down") + message(CHUNK, b"{}", OTHERS))
    found = list(buffer)
    assert [one.headers[":message-type"] for one in found] == ["event"] * len(CLAUDE) + ["exception", "event"]
