"""Asking an agent: what is said, how a reply comes, how long it may take, and what each way of going wrong means."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from engine.agents import frames
from engine.agents.provider import AgentProvider
from engine.agents.session import Patience
from engine.errors import ProviderError
from engine.items import Usage
from engine.providers.messages import Message
from engine.providers.port import Reply, Request, Sampling, ToolSpec
from engine.tools.episode import begin_episode
from foundation.clock import FakeClock, SystemClock
from tests.agents.asking import Nowhere, asking, spec_of, turn
from tests.agents.scripted_agent import (
    CONNECTED,
    HANG_UP,
    SESSION,
    ScriptedAgent,
    Step,
    answered,
    called,
    chunk,
    done,
    let_sockets_deliver,
    serving,
    until,
)

SHORT = Patience(retry_s=0, idle_s=0.1)


async def test_turns_of_a_conversation_are_said_over_one_connection() -> None:
    """A thread has one session, whose agent hears only what is new; another thread has another; all end with the item."""
    agent = ScriptedAgent([chunk("Hello. "), chunk("You?"), done()], [chunk("Bye."), done()])
    async with asking(agent) as provider:
        first = await provider.complete(turn("Hi"))
        second = await provider.complete(turn("Hi", "Hello. You?", "Bye"))
        await provider.complete(turn("Other", thread="persona a/b"))
        assert (first.text, second.text) == ("Hello. You?", "Bye.")
        assert agent.heard == [{"type": "message", "session_id": SESSION, "content": text} for text in ("Hi", "Bye", "Other")]
        assert (len(agent.requests), agent.connections) == (2, 2)
        assert first.meta["agentSession"] == SESSION
    await until(lambda: agent.connections == 0)
    assert agent.endings == [1000, 1000]


async def test_a_request_that_stands_alone_has_its_own_connection() -> None:
    """A judge's question is a session of its own, which ends with the answer; instructions and earlier words are part of its one message."""
    agent = ScriptedAgent([chunk("{}"), done()])
    async with asking(agent) as provider:
        for _ in range(2):
            await provider.complete(turn("Score this.", "Good.", "As JSON, please.", thread="", system="You judge."))
            await until(lambda: agent.connections == 0)
    told = "You judge.\n\nWhat was said so far:\n\nUser: Score this.\n\nYou: Good.\n\nAs JSON, please."
    assert [message["content"] for message in agent.heard] == [told, told]
    assert len(agent.requests) == 2


async def test_what_an_agent_cannot_take_is_not_sent() -> None:
    """Sampling, tools and schemas stay here."""
    agent = ScriptedAgent([chunk("ok"), done()])
    async with asking(agent) as provider:
        await provider.complete(
            turn(
                "Hi",
                tools=(ToolSpec("t", "d", {}),),
                tool_choice="required",
                sampling=Sampling(temperature=0.5, max_tokens=7),
                output_schema={"a": 1},
            )
        )
    assert agent.heard == [{"type": "message", "session_id": SESSION, "content": "Hi"}]


async def test_media_are_refused_by_name() -> None:
    """What a question may be about is never left out silently."""
    agent = ScriptedAgent()
    async with asking(agent) as provider:
        with pytest.raises(ProviderError, match="a part of type image") as failed:
            await provider.complete(Request([Message("user", "What is this?", parts=[{"type": "image", "media": {}}])], thread="turns"))
        assert (failed.value.kind, failed.value.transient, agent.requests) == ("invalid_request", False, [])


async def test_calls_that_the_agent_made_are_shown_and_not_made_again() -> None:
    """A reply has the agent's own calls with their results, its usage and cost; none of the calls is for us to answer."""
    usage = {"input_tokens": 7, "output_tokens": 3, "cached_tokens": 2}
    agent = ScriptedAgent([called("1", "look", {"id": 4}), answered("1", {"found": True}), chunk("Found."), done(usage=usage, cost_usd=0.02)])
    async with asking(agent) as provider:
        reply = await provider.complete(turn("Find it"))
    ((call, result),) = reply.own_calls[0]
    assert (call.name, call.arguments, result.content, reply.tool_calls) == ("look", {"id": 4}, '{"found":true}', ())
    assert (reply.usage, reply.cost_usd) == (Usage(7, 3, 2), 0.02)


async def test_times_are_those_of_the_agent() -> None:
    """Latency is from the message to the end of the reply, the first token is the first text; connecting is not part of either."""
    clock = FakeClock()

    def after(seconds: float) -> Callable[[], Awaitable[object]]:
        async def wait() -> None:
            await let_sockets_deliver()
            await clock.advance(seconds)

        return wait

    agent = ScriptedAgent(
        [after(0.2), called("1", "look"), after(0.3), answered("1"), chunk(""), after(0.5), chunk("a"), after(1), done()],
        greeting=(after(7), CONNECTED),
    )
    async with serving(agent.serve) as endpoint, begin_episode(Nowhere()):
        provider = AgentProvider("clerk", spec_of(endpoint), clock)
        chunks = [piece async for piece in provider.stream(turn("Hi"))]
        await provider.close()
    reply = chunks[-1].reply
    assert [piece.text for piece in chunks] == ["a", ""]
    assert reply is not None
    assert reply.ttft_ms == pytest.approx(1000)
    assert reply.latency_ms == pytest.approx(2000)
    assert reply.own_calls[0][0][1].latency_ms == pytest.approx(300)


FAILED: dict[str, tuple[list[Step], str, bool, str]] = {
    "an unknown frame": ([{"type": "reasoning", "content": "x"}], "protocol", False, "unknown type 'reasoning'"),
    "no JSON": (["hello"], "protocol", False, "not JSON"),
    "a binary frame": ([b"hello"], "protocol", False, "a frame is binary"),
    "a frame that is too large": (["x" * (frames.MAX_FRAME_BYTES + 1)], "protocol", False, "a frame is too large"),
    "another session": ([chunk("x", session_id="s-2")], "protocol", False, "another session"),
    "connected once more": ([CONNECTED], "protocol", False, "'connected' comes in the middle"),
    "a result without a call": ([answered("1")], "protocol", False, "answers no call"),
    "an error of the agent": (
        [{"type": "error", "error": {"code": "INTERNAL_ERROR", "message": "oops"}}],
        "unavailable",
        True,
        "INTERNAL_ERROR: oops",
    ),
    "a rate limit": ([{"type": "error", "error": {"code": "RATE_LIMITED", "message": "slow"}}], "rate_limit", True, "slow"),
    "a quota": ([{"type": "error", "error": {"code": "QUOTA_EXCEEDED", "message": "no more"}}], "rate_limit", False, "no more"),
    "a token that ran out": ([{"type": "error", "code": "token_expired", "message": "again"}], "authentication", False, "again"),
    "a message that it refuses": ([{"type": "error", "error": {"code": "INVALID_MESSAGE", "message": "empty"}}], "invalid_request", False, "empty"),
    "a model that it waited for": ([{"type": "error", "error": {"code": "PROVIDER_TIMEOUT", "message": "late"}}], "timeout", True, "late"),
    "a session that it lost": ([{"type": "error", "error": {"code": "SESSION_NOT_FOUND", "message": "who?"}}], "unavailable", True, "who?"),
    "an error without a word": ([{"type": "error"}], "unavailable", True, "without a code: no words"),
    "a connection that breaks": ([chunk("I thi"), HANG_UP], "unavailable", True, "the connection was lost in the middle of a reply"),
    "an end in the middle": ([chunk("I thi"), 1000], "unavailable", True, "it ended the session in the middle of a reply"),
    "going away": ([1001], "unavailable", True, "going away"),
    "a breach that it found": ([1002], "protocol", False, "1002"),
    "a policy": ([1008], "authentication", False, "because"),
    "a message that is too big": ([1009], "invalid_request", False, "too big"),
    "a fault of its own": ([1011], "unavailable", True, "because"),
    "a restart": ([1012], "unavailable", True, "restarts"),
    "too many requests": ([4429], "rate_limit", True, "too many requests"),
    "a code of its own": ([4999], "unavailable", True, "code 4999"),
}


@pytest.mark.parametrize(("steps", "kind", "transient", "cause"), FAILED.values(), ids=FAILED.keys())
async def test_a_turn_that_goes_wrong_is_an_error_of_its_kind(steps: list[Step], kind: str, transient: bool, cause: str) -> None:  # noqa: FBT001 - a row
    """Whatever comes instead of a reply, it is an error that names the agent and says what came."""
    async with asking(ScriptedAgent(steps)) as provider:
        with pytest.raises(ProviderError) as failed:
            await provider.complete(turn("Hi"))
    error = failed.value
    assert (error.kind, error.transient) == (kind, transient)
    assert error.message.startswith("cannot ask agent 'clerk': ")
    assert cause in error.message


BEGINNINGS: dict[str, tuple[tuple[Step, ...], str, str]] = {
    "a chunk": ((chunk("x"),), "protocol", "first frame is 'said'"),
    "an error": (({"type": "error", "error": {"code": "AGENT_NOT_FOUND", "message": "no clerk"}},), "invalid_request", "no clerk"),
    "no session": (({"type": "connected"},), "protocol", "no session_id"),
    "an end": ((4401,), "authentication", "refuses the token before it began"),
    "a broken line": ((HANG_UP,), "unavailable", "lost before it began"),
}


@pytest.mark.parametrize(("greeting", "kind", "cause"), BEGINNINGS.values(), ids=BEGINNINGS.keys())
async def test_a_session_that_does_not_begin_is_an_error(greeting: tuple[Step, ...], kind: str, cause: str) -> None:
    """The first frame is `connected`, with a session."""
    async with asking(ScriptedAgent(greeting=greeting)) as provider:
        with pytest.raises(ProviderError, match=cause) as failed:
            await provider.complete(turn("Hi"))
    assert failed.value.kind == kind


SILENCES: dict[str, tuple[ScriptedAgent, Patience, str]] = {
    "from the beginning": (ScriptedAgent(greeting=()), Patience(retry_s=0, first_frame_s=0.1), r"no first frame came within 0\.1 s"),
    "after the message": (ScriptedAgent([]), SHORT, r"no frame of its reply came within 0\.1 s"),
    "in the middle of a reply": (ScriptedAgent([chunk("I thi")]), SHORT, r"no frame of its reply came within 0\.1 s"),
}


@pytest.mark.parametrize(("agent", "patience", "cause"), SILENCES.values(), ids=SILENCES.keys())
async def test_an_agent_that_falls_silent_is_given_up(agent: ScriptedAgent, patience: Patience, cause: str) -> None:
    """Silence is a timeout, wherever it begins, and another attempt may end better."""
    async with asking(agent, patience=patience) as provider:
        with pytest.raises(ProviderError, match=cause) as failed:
            await provider.complete(turn("Hi"))
        assert (failed.value.kind, failed.value.transient) == ("timeout", True)
    await until(lambda: agent.connections == 0)


async def test_every_frame_begins_the_wait_anew() -> None:
    """A slow reply is not a silent one: it may take longer than the idle deadline."""
    pieces: list[Step] = []
    for _ in range(4):
        pieces += [lambda: asyncio.sleep(0.8), chunk("x")]  # it is the passing of time that is tested
    async with asking(ScriptedAgent([*pieces, done()]), patience=Patience(retry_s=0, idle_s=3)) as provider:
        assert (await provider.complete(turn("Hi"))).text == "xxxx"


async def test_pings_are_no_frames() -> None:
    """A connection that lives is not an agent that answers."""

    async def ping(request: web.Request) -> web.StreamResponse:
        connection = web.WebSocketResponse()
        await connection.prepare(request)
        await connection.send_json(CONNECTED)
        await connection.receive()
        while not connection.closed:
            await connection.ping()
            await asyncio.wait([asyncio.create_task(connection.receive())], timeout=0.01)
        return connection

    async with serving(ping) as endpoint, begin_episode(Nowhere()):
        provider = AgentProvider("clerk", spec_of(endpoint), SystemClock(), patience=Patience(retry_s=0, idle_s=0.1))
        with pytest.raises(ProviderError, match="no frame of its reply came"):
            await provider.complete(turn("Hi"))
        await provider.close()


async def test_an_agent_that_speaks_unasked_is_refused() -> None:
    """What comes between two turns is never taken for the next reply."""
    agent = ScriptedAgent([chunk("Hello."), done(), chunk("One more thing.")])
    async with asking(agent) as provider:
        await provider.complete(turn("Hi"))
        await let_sockets_deliver()
        with pytest.raises(ProviderError, match="'said' comes when nothing was asked") as failed:
            await provider.complete(turn("Hi", "Hello.", "Bye"))
        assert (failed.value.kind, len(agent.heard)) == ("protocol", 1)


@pytest.mark.parametrize("ending", [HANG_UP, 1000, 1001])
async def test_a_conversation_is_never_resumed_with_an_agent_that_forgot_it(ending: int) -> None:
    """A connection that is lost between two turns ends the conversation, as an error that another attempt may not meet."""
    agent = ScriptedAgent([chunk("Hello."), done(), ending])
    async with asking(agent) as provider:
        await provider.complete(turn("Hi"))
        await until(lambda: agent.connections == 0)
        for _ in range(2):
            with pytest.raises(ProviderError) as failed:
                await provider.complete(turn("Hi", "Hello.", "Bye"))
            assert (failed.value.kind, failed.value.transient) == ("unavailable", True)
        assert len(agent.requests) == 1


async def test_a_reply_that_is_not_heard_to_its_end_is_not_the_next_one() -> None:
    """Whoever stops listening, as a guardrail does, hears the reply to the next message next."""
    agent = ScriptedAgent([chunk("Bad. "), chunk("Worse."), done()], [chunk("Good."), done()])
    async with asking(agent) as provider:
        stream = provider.stream(turn("Hi"))
        assert (await anext(stream)).text == "Bad. "
        await stream.aclose()
        assert (await provider.complete(turn("Hi", "No.", "Again"))).text == "Good."
        assert [message["content"] for message in agent.heard] == ["Hi", "Again"]


async def test_a_conversation_that_is_cancelled_leaves_nothing_behind() -> None:
    """An item whose time is over closes its connection, and no task of it lives on."""
    agent = ScriptedAgent([chunk("I thi")])
    async with serving(agent.serve) as endpoint:
        provider = AgentProvider("clerk", spec_of(endpoint), SystemClock())

        async def item() -> Reply:
            async with begin_episode(Nowhere()):
                return await provider.complete(turn("Hi"))

        task = asyncio.create_task(item())
        await until(lambda: bool(agent.heard))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: agent.connections == 0)
        await provider.close()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
