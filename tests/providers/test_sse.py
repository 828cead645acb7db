"""Server-sent events out of bytes, whatever their cuts and line endings."""

import pytest

from engine.errors import ProviderError
from engine.providers.sse import EventReader
from engine.providers.wire import Event

STREAMS = [
    pytest.param(b"data: a\n\ndata: b\n\n", [Event("", "a"), Event("", "b")], id="line feeds"),
    pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [Event("", "a"), Event("", "b")], id="both"),
    pytest.param(b"data: a\r\rdata: b\r\r", [Event("", "a"), Event("", "b")], id="carriage returns"),
    pytest.param(b"data: a\r\n\ndata: b\n\r\n", [Event("", "a"), Event("", "b")], id="mixed"),
    pytest.param(b": ping\n\n: ping\ndata: a\n: pong\n\n", [Event("", "a")], id="comments"),
    pytest.param(b"event: delta\nid: 7\nretry: 10\ndata: a\n\ndata: b\n\n", [Event("delta", "a"), Event("", "b")], id="names of one event only"),
    pytest.param(b"data: a\ndata:b\ndata\n\n", [Event("", "a\nb\n")], id="several lines"),
    pytest.param(b"data:  a \n\n", [Event("", " a ")], id="one space is the format's"),
    pytest.param(b"event: done\n\ndata: a\n\n", [Event("", "a")], id="a name without data is no event"),
    pytest.param(b"\xef\xbb\xbfdata: a\n\n", [Event("", "a")], id="byte order mark"),
    pytest.param("data: süß 🎈\n\n".encode(), [Event("", "süß 🎈")], id="characters of several bytes"),
    pytest.param(b"data: \xff!\n\n", [Event("", "\ufffd!")], id="no UTF-8"),
    pytest.param(b"data: a\n\ndata: b", [Event("", "a"), Event("", "b")], id="no blank line at the end"),
    pytest.param(b"", [], id="nothing"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(("stream", "events"), STREAMS)
def test_events_are_the_same_however_the_stream_is_cut(stream: bytes, events: list[Event], size: int) -> None:
    """A stream has the same events whatever pieces it comes in."""
    reader, read = EventReader(), []
    for start in range(0, len(stream), size):
        read += reader.feed(stream[start : start + size])
    assert [*read, *reader.end()] == events


def test_an_event_comes_with_its_last_byte() -> None:
    """An event is given out as soon as its blank line is there, also where lines end with carriage returns."""
    assert EventReader().feed(b"data: a\r\r") == [Event("", "a")]


@pytest.mark.parametrize("line", [b"data: " + b"x" * 100, b"data: x\n" * 20, b": x\n" * 40])
def test_an_event_has_a_limit(line: bytes) -> None:
    """An event that does not end is an error of the protocol, not a full memory."""
    reader = EventReader(max_event_bytes=1000)

    def endless() -> None:
        for _ in range(100):
            reader.feed(line)

    with pytest.raises(ProviderError, match="longer than") as caught:
        endless()
    assert caught.value.kind == "protocol"
