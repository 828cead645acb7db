"""The mock provider: which entry answers, in how many chunks, at what cost, after how long."""

import asyncio
from collections.abc import Sequence

import pytest

from engine.bundle.mock_responses import MockResponses, MockScript, MockToolCall, MockTurn
from engine.items import Usage
from engine.providers.messages import Message
from engine.providers.mock import GENERIC_REPLY, MockProvider, input_tokens, output_tokens, turn_number
from engine.providers.port import Chunk, Request, Script, ToolSpec
from foundation.clock import FakeClock

TOOL = (ToolSpec("search", "", {}),)
RESPONSES = MockResponses(
    default_response="global",
    scenarios={
        "s": MockScript("scenario", {1: MockTurn(content="one"), 2: MockTurn("two", tool_calls=(MockToolCall("search", {"q": "x"}),))}),
        "bare": MockScript(None, {}),
    },
    selfplay={"p": MockScript(None, {1: MockTurn(content="persona one")})},
)


def talk(*roles: str) -> list[Message]:
    """Return messages of these roles, four bytes each."""
    return [Message(role, "abcd") for role in roles]


def request(scenario: str = "s", turn: int = 1, *, tools: bool = False, persona: str = "", messages: Sequence[Message] = ()) -> Request:
    """Return a request of a scenario's turn."""
    return Request(messages, tools=TOOL if tools else (), script=Script(scenario, turn, persona))


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        pytest.param(request(), "one", id="the scenario's turn"),
        pytest.param(request(turn=9), "scenario", id="the scenario's default"),
        pytest.param(request("other"), "global", id="the file's default"),
        pytest.param(request("bare"), "global", id="a scenario without a default"),
        pytest.param(request(persona="p"), "persona one", id="a persona before the scenario"),
        pytest.param(request(turn=2, persona="p"), "two", id="a persona without this turn"),
    ],
)
async def test_which_entry_answers(asked: Request, text: str) -> None:
    """Persona, scenario turn, scenario default, global default, in this order."""
    assert (await MockProvider("m", "x", RESPONSES, FakeClock()).complete(asked)).text == text


async def test_a_file_with_nothing_names_provider_and_model() -> None:
    """Without an entry the reply names who should have answered; under the override without a file it is one fixed sentence."""
    assert (await MockProvider("m", "x", MockResponses(), FakeClock()).complete(request())).text == "Mock response for provider m model x"
    generic = MockProvider("m", "x", MockResponses(), FakeClock(), generic_reply=GENERIC_REPLY)
    assert (await generic.complete(request())).text == "Mock response from provider"


@pytest.mark.parametrize(
    ("turn", "roles", "tools", "number"),
    [
        pytest.param(3, ["user", "assistant", "tool", "assistant", "user"], False, 3, id="without tools it is the turn"),
        pytest.param(1, ["user"], True, 1, id="first call"),
        pytest.param(1, ["user", "assistant", "tool"], True, 2, id="after a tool's answer"),
        pytest.param(2, ["user", "assistant", "tool", "assistant", "user"], True, 3, id="the next turn goes on counting replies"),
        pytest.param(2, ["user", "assistant", "user"], True, 2, id="a turn without tools before"),
        pytest.param(3, ["user", "assistant", "tool", "assistant", "user"], True, 4, id="a streaming turn skips a number"),
        pytest.param(3, ["user", "assistant", "tool", "assistant", "user", "assistant", "tool"], True, 4, id="and repeats it after the tool"),
    ],
)
def test_turn_numbers(turn: int, roles: list[str], number: int, *, tools: bool) -> None:
    """The number is the reference's: with tools the replies count, plus one after any tool result of any turn."""
    assert turn_number(request(turn=turn, tools=tools, messages=talk(*roles))) == number


async def test_tool_calls_need_tools() -> None:
    """Calls are made only when a tool is offered; their ids say place and name, and repeat."""
    provider = MockProvider("m", "x", RESPONSES, FakeClock())
    assert (await provider.complete(request(turn=2))).tool_calls == ()
    reply = await provider.complete(request(turn=2, tools=True))
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [("call_0_search", "search", {"q": "x"})]
    assert reply.finish_reason == "tool_calls"


async def test_calls_are_not_shared() -> None:
    """What one conversation does to a call's arguments does not reach the next."""
    provider = MockProvider("m", "x", RESPONSES, FakeClock())
    first = await provider.complete(request(turn=2, tools=True))
    assert first.tool_calls[0].arguments is not None
    first.tool_calls[0].arguments.clear()
    second = await provider.complete(request(turn=2, tools=True))
    assert second.tool_calls[0].arguments == {"q": "x"}


async def chunks_of(asked: Request, text: str) -> list[Chunk]:
    """Return the chunks of a reply."""
    provider = MockProvider("m", "x", MockResponses(default_response=text), FakeClock())
    return [chunk async for chunk in provider.stream(asked)]


async def test_a_reply_without_tools_is_one_chunk() -> None:
    """The one chunk has the text and the whole reply."""
    (chunk,) = await chunks_of(request(), "x" * 50)
    assert chunk.reply is not None
    assert (len(chunk.text), chunk.reply.text) == (50, "x" * 50)


async def test_a_reply_with_tools_comes_in_chunks_of_20() -> None:
    """Texts come first, 20 characters each, and the reply last, with the usage."""
    chunks = await chunks_of(request(tools=True), "é" * 50)
    assert [len(chunk.text) for chunk in chunks] == [20, 20, 10, 0]
    assert [chunk.reply is None for chunk in chunks] == [True, True, True, False]


@pytest.mark.parametrize(
    ("contents", "tokens"),
    [
        pytest.param(["abc", "abcdefgh"], 2, id="rounded down for each message"),
        pytest.param(["éé"], 1, id="bytes, not characters"),
        pytest.param(["abc"], 10, id="nothing counts as ten"),
    ],
)
def test_input_tokens(contents: list[str], tokens: int) -> None:
    """Input is four bytes a token for each message, the system prompt free."""
    assert input_tokens(Request([Message("user", content) for content in contents], system="x" * 100)) == tokens


@pytest.mark.parametrize(("text", "tokens"), [("abcdefgh", 2), ("abc", 20), ("", 20), ("ééé", 1), ("\ud800abc", 1)])
def test_output_tokens(text: str, tokens: int) -> None:
    """Output is four bytes a token; nothing counts as twenty; a broken surrogate still counts."""
    assert output_tokens(text) == tokens


async def test_a_reply_costs_a_cent_for_a_thousand_tokens() -> None:
    """Both ways cost 0.01 USD for 1,000 tokens."""
    reply = await MockProvider("m", "x", MockResponses(default_response="x" * 400), FakeClock()).complete(
        request(messages=[Message("user", "y" * 800)])
    )
    assert (reply.usage, reply.cost_usd) == (Usage(200, 100), 0.003)


async def test_latency_is_waited_on_the_clock() -> None:
    """A simulated latency delays each reply by exactly that much, in both ways of asking."""
    clock = FakeClock()
    provider = MockProvider("m", "x", RESPONSES, clock, latency_ms=50)
    whole = asyncio.ensure_future(provider.complete(request()))
    await clock.advance(0)
    await clock.advance(0.04)
    assert not whole.done()
    await clock.advance(0.02)
    assert (await whole).text == "one"
    stream = provider.stream(request())
    first = asyncio.ensure_future(anext(stream))
    await clock.advance(0)
    await clock.advance(0.06)
    assert (await first).text == "one"
    await stream.aclose()
    await provider.close()
