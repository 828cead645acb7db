"""Anthropic's streams, as server-sent events and on Bedrock: every documented event, any cut, and what breaks off."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ProviderError
from engine.items import Usage
from engine.providers.aws_stream import AwsEventReader
from engine.providers.messages import ToolCall
from engine.providers.sse import EventReader
from engine.providers.wires.anthropic import Anthropic, AnthropicOptions
from engine.providers.wires.anthropic_messages import THINKING
from tests.providers.vendor_streams import (
    CLAUDE,
    CLAUDE_CALLING,
    CLAUDE_START,
    CLAUDE_TEXT,
    CLAUDE_TOOLS,
    Framer,
    claude_end,
    exception,
    framed,
    heard,
    named,
    unnamed,
)

WIRE = Anthropic(AnthropicOptions("claude-sonnet-4-5-20250929"))
HOSTS = [
    pytest.param(named, EventReader, id="sse"),
    pytest.param(unnamed, EventReader, id="no names"),
    pytest.param(framed, AwsEventReader, id="bedrock"),
]
Write = Callable[[Iterable[Mapping[str, Any]]], bytes]


@pytest.mark.parametrize(("write", "framer"), HOSTS)
def test_a_stream_of_text(write: Write, framer: Framer) -> None:
    """Text comes as it is said; usage is the last that was said of each count; input counts the cache."""
    reply, text = heard(WIRE, write(CLAUDE), framer=framer)
    assert reply.text == text == "Grüße, world\n!"
    assert (reply.finish_reason, reply.usage) == ("stop", Usage(37, 15, 8))
    assert reply.meta == {"cacheWriteTokens": 4}


@pytest.mark.parametrize(("write", "framer"), HOSTS)
def test_a_stream_of_thinking_and_calls(write: Write, framer: Framer) -> None:
    """Thinking is no text, and keeps its signature; a call's arguments come in pieces, or are none."""
    reply, text = heard(WIRE, write(CLAUDE_CALLING), framer=framer)
    assert reply.text == text == "Looking"
    assert reply.tool_calls == (ToolCall("toolu_1", "look", {"place": "Zürich"}), ToolCall("toolu_2", "now", {}))
    assert (reply.finish_reason, reply.usage) == ("tool_calls", Usage(37, 15, 8, 6))
    assert reply.meta[THINKING] == [
        {"type": "thinking", "thinking": "Let me look", "signature": "EqQB"},
        {"type": "redacted_thinking", "data": "Zm9v"},
    ]


@pytest.mark.parametrize(("write", "framer"), HOSTS)
@given(cuts=st.lists(st.integers(0, 4000), max_size=12))
def test_any_cut_gives_the_same_reply(write: Write, framer: Framer, cuts: list[int]) -> None:
    """Bytes arrive in any pieces: inside characters, frames and checksums."""
    data = write(CLAUDE_CALLING)
    assert heard(WIRE, data, [cut % len(data) for cut in cuts], framer) == heard(WIRE, data, framer=framer)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_small_pieces_give_the_same_reply(size: int) -> None:
    """Byte by byte as well."""
    for write, framer in ((named, EventReader), (framed, AwsEventReader)):
        data = write(CLAUDE_CALLING)
        assert heard(WIRE, data, range(size, len(data), size), framer) == heard(WIRE, data, framer=framer)


def test_a_stream_is_what_a_whole_reply_is() -> None:
    """The same blocks, whole or in pieces, are the same reply."""
    reply, _ = heard(WIRE, named(CLAUDE_CALLING))
    usage = {**CLAUDE_START["message"]["usage"], "output_tokens": 15, "output_tokens_details": {"thinking_tokens": 6}}
    content = [
        *reply.meta[THINKING],
        {"type": "text", "text": "Looking"},
        *({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in reply.tool_calls),
    ]
    assert WIRE.reply({**CLAUDE_START["message"], "content": content, "stop_reason": "tool_use", "usage": usage}) == reply


@pytest.mark.parametrize("kept", range(len(CLAUDE) - 2))
def test_a_stream_that_ends_early_is_an_error(kept: int) -> None:
    """Until the protocol has said why the reply stopped, what came is no reply; another attempt may bring it."""
    with pytest.raises(ProviderError, match="ended before it was complete") as broken:
        heard(WIRE, named(CLAUDE[:kept]))
    assert (broken.value.kind, broken.value.transient) == ("protocol", True)


def test_only_the_last_word_may_be_missing() -> None:
    """Once the reason is there and no block is open, the reply is complete: what is missing says nothing."""
    assert heard(WIRE, named(CLAUDE[:-1])) == heard(WIRE, named(CLAUDE))


def test_a_reason_with_an_open_block_is_not_complete() -> None:
    """A block that never ended may have lost its end."""
    cut_off = [event for event in CLAUDE if event["type"] != "content_block_stop"]
    with pytest.raises(ProviderError, match="ended before it was complete"):
        heard(WIRE, named(cut_off[:-1]))
    assert heard(WIRE, named(cut_off))[0].text == "Grüße, world\n!"


def test_a_call_that_the_limit_cut_has_no_arguments() -> None:
    """A reply that ran into its limit inside of a call says so: the limit is its reason, and the call's text is kept as it is."""
    events = (
        CLAUDE_START,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "look", "input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"place": "Z'}},
        {"type": "content_block_stop", "index": 0},
        *claude_end("max_tokens"),
    )
    reply, _ = heard(WIRE, named(events))
    assert (reply.finish_reason, reply.tool_calls) == ("length", (ToolCall("t", "look", None, '{"place": "Z'),))


@pytest.mark.parametrize(
    ("code", "kind", "transient"),
    [
        ("overloaded_error", "unavailable", True),
        ("api_error", "unavailable", True),
        ("rate_limit_error", "rate_limit", True),
        ("invalid_request_error", "invalid_request", False),
        ("something_new", "unavailable", True),
    ],
)
@pytest.mark.parametrize("after", [0, 1, 4], ids=["at once", "after the start", "after text"])
def test_an_error_inside_a_stream(after: int, code: str, kind: str, transient: bool) -> None:  # noqa: FBT001 - a table's column
    """An error event ends the stream as what it says, whatever came before it."""
    error = {"type": "error", "error": {"type": code, "message": "sorry"}}
    with pytest.raises(ProviderError, match="sorry") as said:
        heard(WIRE, named((*CLAUDE[:after], error)))
    assert (said.value.kind, said.value.transient) == (kind, transient)


@pytest.mark.parametrize(
    ("code", "kind", "transient"),
    [
        ("throttlingException", "rate_limit", True),
        ("internalServerException", "unavailable", True),
        ("serviceUnavailableException", "unavailable", True),
        ("modelStreamErrorException", "unavailable", True),
        ("modelTimeoutException", "timeout", True),
        ("validationException", "invalid_request", False),
    ],
)
def test_an_exception_inside_a_stream_of_bedrock(code: str, kind: str, transient: bool) -> None:  # noqa: FBT001 - a table's column
    """Bedrock's exceptions come as messages of the stream."""
    with pytest.raises(ProviderError, match="sorry") as said:
        heard(WIRE, framed(CLAUDE[:4]) + exception(code, "sorry"), framer=AwsEventReader)
    assert (said.value.kind, said.value.transient) == (kind, transient)


def test_events_of_a_kind_that_is_not_known_are_passed_over() -> None:
    """The vendor adds events, blocks and pieces, and says that they must not disturb."""
    new = (
        CLAUDE_START,
        {"type": "server_mood", "mood": "good"},
        {"type": "content_block_start", "index": 9, "content_block": {"type": "web_search_tool_result", "content": []}},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "new_delta"}},
        {"type": "content_block_stop", "index": 9},
        *CLAUDE_TEXT,
        *claude_end(),
    )
    assert heard(WIRE, named(new)) == heard(WIRE, named(CLAUDE))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"data: not JSON\n\n", id="no JSON"),
        pytest.param(b"data: [1]\n\n", id="no object"),
        pytest.param(named([{"type": "message_start"}]), id="a start without a message"),
        pytest.param(named([CLAUDE_START, {"type": "content_block_start", "index": 0}]), id="a block without a block"),
        pytest.param(named([CLAUDE_START, CLAUDE_TEXT[2]]), id="a piece of no block"),
        pytest.param(named([CLAUDE_START, CLAUDE_TOOLS[0], CLAUDE_TEXT[2]]), id="a piece of another kind of block"),
        pytest.param(named([CLAUDE_START, {**CLAUDE_TEXT[0], "content_block": {"text": ""}}]), id="a block of no kind"),
        pytest.param(named([*CLAUDE[:2], {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}}]), id="text without text"),
        pytest.param(named([*CLAUDE[:2], {"type": "content_block_delta", "index": 0}]), id="a piece without a piece"),
    ],
)
def test_events_of_another_shape_are_errors(data: bytes) -> None:
    """What is no event of the protocol is an error, never a shorter reply."""
    with pytest.raises(ProviderError) as unreadable:
        heard(WIRE, data + named(claude_end()))
    assert (unreadable.value.kind, unreadable.value.transient) == ("protocol", True)


def test_a_block_that_begins_with_text() -> None:
    """A gateway may put the first text into the block's beginning."""
    events = (
        CLAUDE_START,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "He"}},
        *CLAUDE_TEXT[3:],
        *claude_end(),
    )
    reply, text = heard(WIRE, named(events))
    assert reply.text == text == "Heworld\n!"


def test_usage_that_is_missing_is_not_zero() -> None:
    """Without counts there is no usage; counts that come as null leave the ones before."""
    silent = [{key: value for key, value in event.items() if key != "usage"} for event in CLAUDE]
    silent[0] = {"type": "message_start", "message": {"model": "claude-sonnet-4-5-20250929"}}
    assert heard(WIRE, named(silent))[0].usage is None
    nulls = (*CLAUDE[:-2], *claude_end(input_tokens=None, cache_read_input_tokens=None))
    assert heard(WIRE, named(nulls))[0].usage == Usage(37, 15, 8)


def test_asking_twice_for_the_end_gives_the_same() -> None:
    """Whoever sends asks for the end when a connection fails, and may ask again."""
    listening, framing = WIRE.listen(), EventReader()
    for event in framing.feed(named(CLAUDE_CALLING)):
        listening.take(event)
    assert replace(listening.finish()) == listening.finish()
