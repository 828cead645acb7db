"""Replies of agents, put together from frames."""

import pytest

from engine.agents import reply as replies
from engine.agents.frames import Answered, Asked, Called, Connected, Done, Frame, FrameFault, Said
from engine.agents.reply import ReplyUnderway
from engine.items import Usage
from engine.providers.messages import ToolCall, ToolResult


def _take(*frames: Frame) -> ReplyUnderway:
    underway = ReplyUnderway(10.0)
    for place, frame in enumerate(frames, 1):
        underway.take(frame, 10.0 + place)
    return underway


def test_a_reply_is_everything_said_until_it_is_done() -> None:
    """Texts before and after tool calls are one reply; its usage and cost are those of its end."""
    call = ToolCall("1", "look", {})
    reply = _take(Said("One moment. "), Called(call), Answered("1", "x"), Said("Found."), Done(usage=Usage(1, 2), cost_usd=0.1)).reply({"a": "b"})
    assert (reply.text, reply.usage, reply.cost_usd, reply.meta) == ("One moment. Found.", Usage(1, 2), 0.1, {"a": "b"})
    assert not reply.tool_calls


def test_times_count_from_the_message() -> None:
    """The first text gives the time to the first token, a chunk without text does not; the end gives the latency."""
    reply = _take(Said(""), Called(ToolCall("1", "look", {})), Answered("1", "x"), Said("a"), Said("b"), Done()).reply({})
    assert (reply.ttft_ms, reply.latency_ms) == (4000, 6000)


def test_a_reply_without_text_has_no_first_token() -> None:
    """Nothing that was not said is timed."""
    assert _take(Done()).reply({}).ttft_ms is None


def test_the_end_may_bring_the_whole_reply() -> None:
    """Content of `done` is the whole reply: alone it is also the first text, after chunks it takes their place."""
    alone, after = ReplyUnderway(0.0), ReplyUnderway(0.0)
    assert alone.take(Done("all"), 1.0) == "all"
    after.take(Said("al"), 1.0)
    assert after.take(Done("all"), 2.0) == ""
    assert (alone.reply({}).text, alone.reply({}).ttft_ms, after.reply({}).text, after.reply({}).ttft_ms) == ("all", 1000, "all", 1000)


def test_calls_are_joined_to_their_results_in_rounds() -> None:
    """Calls that are made before a result comes are one round; results find their calls by id, in whatever order."""
    one, two, three = ToolCall("1", "a", {}), ToolCall("2", "b", {}), ToolCall("1", "c", {})
    reply = _take(Called(one), Called(two), Answered("2", "B"), Answered("1", "", "broke"), Called(three), Answered("1", "C"), Done()).reply({})
    first = ((one, ToolResult("1", "a", "Error: broke", "broke", "execution", latency_ms=3000)), (two, ToolResult("2", "b", "B", latency_ms=1000)))
    assert reply.own_calls == (first, ((three, ToolResult("1", "c", "C", latency_ms=1000)),))


def test_a_result_without_an_id_answers_the_first_call_that_waits() -> None:
    """Agents that give no ids answer in order."""
    one, two = ToolCall("", "a", {}), ToolCall("", "b", {})
    reply = _take(Called(one), Called(two), Answered("", "A"), Answered("", "B"), Done()).reply({})
    assert [(call.name, result.content) for call, result in reply.own_calls[0]] == [("a", "A"), ("b", "B")]


def test_a_call_whose_result_is_not_shown_is_recorded() -> None:
    """An agent may show calls only; that it made them counts."""
    reply = _take(Called(ToolCall("1", "a", {})), Done()).reply({})
    assert reply.own_calls == (((ToolCall("1", "a", {}), ToolResult("1", "a", "")),),)


@pytest.mark.parametrize(
    ("frames", "cause"),
    [
        ((Connected("s"),), "'connected' comes in the middle"),
        ((Asked("x"),), "'asked' comes in the middle"),
        ((Answered("1", "x"),), "answers no call"),
        ((Called(ToolCall("1", "a", {})), Answered("2", "x")), "answers no call"),
        ((Called(ToolCall("1", "a", {})), Answered("1", "x"), Answered("1", "x")), "answers no call"),
        ((Said("x" * (replies.MAX_CHARACTERS + 1)),), "longer than"),
        (tuple(Called(ToolCall("1", "a", {})) for _ in range(replies.MAX_CALLS + 1)), "more than"),
    ],
    ids=[
        "connected again",
        "a message of the server",
        "a result of nothing",
        "a result of another call",
        "a second result",
        "too long",
        "too many calls",
    ],
)
def test_frames_out_of_place_are_refused(frames: tuple[Frame, ...], cause: str) -> None:
    """A frame that has no place in a reply is a fault of the agent's."""
    with pytest.raises(FrameFault) as refused:
        _take(*frames)
    assert cause in str(refused.value)
