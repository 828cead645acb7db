"""The replay provider: which recorded reply answers, after how long, at what cost."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from engine.bundle.recordings import RecordedCall, RecordedMessage, Recording
from engine.errors import ProviderError
from engine.items import Usage
from engine.providers.messages import Message, ToolCall
from engine.providers.port import Request
from engine.providers.replay import Match, ReplayOptions, ReplayProvider, Timing, options_of
from foundation.clock import FakeClock

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def said(role: str, content: str, second: float = 0.0, **more: object) -> RecordedMessage:
    """Return a recorded message."""
    return RecordedMessage(role, content, at=AT + timedelta(seconds=second), **more)  # type: ignore[arg-type]


RECORDING = Recording(
    "r.recording.json",
    (
        said("user", "one", 0),
        said("assistant", "first", 2, input_tokens=3, output_tokens=4),
        said("user", "two", 10),
        said("assistant", "", 11, calls=(RecordedCall("c1", "look", {"q": 1}), RecordedCall("", "raw", "{"))),
        said("tool", "found", 12, call_id="c1", name="look"),
        said("assistant", "second", 13, latency_ms=250.0),
        said("user", "one", 20),
        said("assistant", "again", 21),
    ),
)


def asked(*said_so_far: tuple[str, str]) -> Request:
    """Return a request with these (role, content) messages."""
    return Request([Message(role, content) for role, content in said_so_far])


def replay(**options: object) -> ReplayProvider:
    """Return a provider of the recording."""
    return ReplayProvider(RECORDING, ReplayOptions(**options), FakeClock())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (asked(("user", "anything")), "first"),
        (asked(("user", "x"), ("assistant", "first"), ("user", "y"), ("assistant", ""), ("tool", "found")), "second"),
        (asked(*[("user", "x"), ("assistant", "y")] * 3, ("user", "z")), "again"),
    ],
    ids=["first", "after a tool", "last"],
)
async def test_the_next_reply_answers(request_: Request, text: str) -> None:
    """The n-th request of a conversation gets the n-th reply, whatever is asked."""
    assert (await replay().complete(request_)).text == text


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (asked(("user", " two ")), ""),
        (asked(("user", "two"), ("assistant", ""), ("tool", "found")), "second"),
        (asked(("user", "one")), "first"),
        (asked(("user", "one"), ("assistant", "first"), ("user", "one")), "again"),
        (asked(*[("user", "one"), ("assistant", "first")] * 5, ("user", "one")), "again"),
    ],
    ids=["by its words", "after a tool", "said first", "said again", "said more often than recorded"],
)
async def test_the_same_words_get_the_same_reply(request_: Request, text: str) -> None:
    """With match content, the reply is the one that was given to the user's words."""
    assert (await replay(match=Match.CONTENT).complete(request_)).text == text


@pytest.mark.parametrize(
    ("match", "request_", "cause"),
    [
        (Match.TURN, asked(*[("assistant", "x")] * 4), "it has 4 replies, and this would be number 5"),
        (Match.CONTENT, asked(("user", "three")), "nobody said these words in it"),
        (Match.CONTENT, asked(), "the request has no message of a user"),
        (
            Match.CONTENT,
            asked(("user", "two"), ("assistant", ""), ("tool", "x"), ("assistant", ""), ("tool", "x")),
            "it has 2 replies to these words",
        ),
    ],
    ids=["no more replies", "other words", "no user", "too many calls"],
)
async def test_a_reply_that_was_not_recorded_is_an_error(match: Match, request_: Request, cause: str) -> None:
    """Nothing is made up, and asking again would change nothing."""
    with pytest.raises(ProviderError, match=r"cannot replay 'r\.recording\.json'") as caught:
        await replay(match=match).complete(request_)
    assert cause in caught.value.message
    assert not caught.value.transient


async def test_tool_calls_are_made_again() -> None:
    """With the ids and arguments of the recording, also those that were no object."""
    reply = await replay().complete(asked(("user", "x"), ("assistant", "first"), ("user", "two")))
    assert reply.tool_calls == (ToolCall("c1", "look", {"q": 1}), ToolCall("call_1_raw", "raw", None, "{"))
    assert reply.finish_reason == "tool_calls"


async def test_a_replay_costs_nothing() -> None:
    """Tokens are those of the recording; nobody is paid again."""
    reply = await replay().complete(asked(("user", "one")))
    assert (reply.usage, reply.cost_usd) == (Usage(3, 4), 0.0)


@pytest.mark.parametrize(
    ("options", "replies", "seconds"),
    [
        ({}, 0, 0.0),
        ({"timing": Timing.REALTIME}, 0, 2.0),
        ({"timing": Timing.REALTIME}, 2, 0.25),
        ({"timing": Timing.ACCELERATED, "speed": 4.0}, 0, 0.5),
    ],
    ids=["instant", "since the message before", "the recorded latency", "accelerated"],
)
async def test_how_long_a_reply_takes(options: dict[str, object], replies: int, seconds: float) -> None:
    """Nothing, or what it took then, or that by the speed."""
    clock = FakeClock()
    provider = ReplayProvider(RECORDING, ReplayOptions(**options), clock)  # type: ignore[arg-type]
    task = asyncio.create_task(provider.complete(asked(*[("assistant", "x")] * replies, ("user", "x"))))
    await clock.advance(0)
    await clock.advance(max(0.0, seconds - 0.01))
    assert task.done() == (seconds == 0)
    await clock.advance(0.02)
    assert task.done()
    await task


async def test_a_stream_is_one_chunk() -> None:
    """How a reply was cut is not recorded."""
    chunks = [chunk async for chunk in replay().stream(asked(("user", "one")))]
    assert [(chunk.text, chunk.reply.text if chunk.reply else None) for chunk in chunks] == [("first", "first")]


def test_options_of_a_provider_file() -> None:
    """What is not said is instant, by turn, at the speed of then."""
    assert options_of({}) == ReplayOptions(Timing.INSTANT, Match.TURN, 1.0)
    assert options_of({"timing": "accelerated", "match": "content", "speed": 2}) == ReplayOptions(Timing.ACCELERATED, Match.CONTENT, 2.0)
