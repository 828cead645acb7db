"""Runs whose providers are agents: a bundle served as an agent is tested as its own model would be."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.agents.frames import Done, Said
from engine.agents.served import Choice, Emit
from engine.agents.server import ServerOptions
from engine.bundle.loader import load_bundle
from engine.bundle.model import Bundle
from engine.bundle.supported import check_supported
from engine.conversation import ItemRunner
from engine.items import ItemResult, Verdict
from engine.job_providers import JobProviders, ResolvedProvider
from engine.plan import MockOverride, Plan, PlanRequest, make_plan
from engine.providers.connections import NO_CONNECTIONS, Connections
from foundation.clock import SystemClock
from tests.agents.clients import PlainAgent, hosted, served, write_starter
from tests.agents.scripted_agent import HANG_UP, ScriptedAgent, Step, answered, called, chunk, done, serving, until
from tests.open_ends import open_ends

Write = Callable[..., Bundle]


def agent(endpoint: str, name: str = "clerk", **more: Any) -> ResolvedProvider:
    """Return an agent as a job brings it."""
    return ResolvedProvider(name, {"type": "agent", "endpoint": endpoint, "agent": name, "namespace": "shop", "from_job": True} | more)


def planned(bundle: Bundle, providers: JobProviders, **request: Any) -> Plan:
    """Return a plan of a job that brings these providers."""
    plan = make_plan(bundle, PlanRequest(providers=providers, **request))
    check_supported(bundle, plan)
    return plan


@asynccontextmanager
async def running(bundle: Bundle, plan: Plan, connections: Connections = NO_CONNECTIONS) -> AsyncIterator[ItemRunner]:
    """Return who runs the items of a plan."""
    runner = ItemRunner(bundle, plan, SystemClock(), connections)
    try:
        yield runner
    finally:
        await runner.close()


async def run(bundle: Bundle, plan: Plan, connections: Connections = NO_CONNECTIONS) -> list[ItemResult]:
    """Run every item of a plan, all at once."""
    async with running(bundle, plan, connections) as runner:
        return await asyncio.gather(*(runner.run(item) for item in plan.items))


def roles(result: ItemResult) -> list[str]:
    """Return who spoke, in order."""
    return [message["role"] for message in result.messages]


async def test_an_agent_is_tested_as_its_model_would_be(tmp_path: Path) -> None:
    """The same checks see the same words, tool calls and results; usage and cost are the agent's; the system prompt is nobody's here."""
    bundle = load_bundle(write_starter(tmp_path))
    direct, _ = await run(bundle, make_plan(bundle, PlanRequest(only_scenarios=("order-status",), only_providers=("steady",), trials=1)))
    async with served(tmp_path, Choice("order-status", provider="steady")) as (_, endpoint):
        through, _ = await run(bundle, planned(bundle, {"default": (agent(endpoint),)}, only_scenarios=("order-status",), trials=1))
    assert through.error is None
    assert [(check.type, check.passed, check.score) for check in through.checks] == [
        (check.type, check.passed, check.score) for check in direct.checks
    ]
    assert (through.usage, through.cost_usd) == (direct.usage, direct.cost_usd)
    assert roles(direct) == ["system", *roles(through)]
    told = [[(m["role"], m["content"], m.get("toolCalls")) for m in result.messages if m["role"] != "system"] for result in (direct, through)]
    assert told[0] == told[1]
    assert through.ttft_ms is not None
    assert 0 < through.ttft_ms <= through.provider_latency_ms


async def test_rounds_of_calls_stand_before_the_reply(write: Write) -> None:
    """What an agent did is told in the order in which it did it, and checks count it in its turn; what it answered is the last word."""
    steps: list[Step] = [
        called("1", "a", {"x": 1}),
        called("2", "b"),
        answered("2", "B"),
        answered("1", "A"),
        called("3", "c"),
        answered("3", error="no"),
        chunk("So."),
        done(),
    ]
    checks = [
        {"type": "tools_called", "params": {"tool_names": ["a", "b"]}},
        {"type": "tool_call_count", "params": {"max": 3}},
        {"type": "no_tool_errors", "params": {"tools": ["a", "b"]}},
        {"type": "content_matches", "params": {"pattern": "^So.$"}},
    ]
    bundle = write([{"role": "user", "content": "Go", "assertions": checks}], {})
    async with serving(ScriptedAgent(steps).serve) as endpoint:
        (result,) = await run(bundle, planned(bundle, {"default": (agent(endpoint),)}))
    assert result.verdict is Verdict.PASS, result.checks
    assert [(m["role"], m["content"], [call["name"] for call in m.get("toolCalls", ())]) for m in result.messages] == [
        ("user", "Go", []),
        ("assistant", "", ["a", "b"]),
        ("tool", "A", []),
        ("tool", "B", []),
        ("assistant", "", ["c"]),
        ("tool", "Error: no", []),
        ("assistant", "So.", []),
    ]


async def test_agents_and_models_stand_in_one_matrix(tmp_path: Path) -> None:
    """An entry of either kind is an entry: each scenario is held with each of them."""
    bundle = load_bundle(write_starter(tmp_path))
    mock = ResolvedProvider("steady", bundle.providers["steady"].spec)
    async with served(tmp_path, Choice("order-status", provider="steady")) as (_, endpoint):
        results = await run(bundle, planned(bundle, {"default": (agent(endpoint), mock)}, only_scenarios=("order-status",), trials=2))
    assert {(result.item.provider, result.item.trial, result.verdict) for result in results} == {
        (provider, trial, Verdict.PASS) for provider in ("clerk", "steady") for trial in (1, 2)
    }


async def test_a_plan_says_what_does_not_reach_an_agent(write: Write) -> None:
    """One sentence an agent, and one for each scenario that would decline or break its tools."""
    chaos = {"tool_failures": [{"tool": "t", "mode": "error"}]}
    bundle = write([{"role": "user", "content": "Hi", "chaos": chaos}], {1: "x"}, tools={"t": {}})
    plan = planned(bundle, {"default": (agent("x:1"),)})
    assert [warning for warning in plan.warnings if "agent" in warning] == [
        "provider 'clerk' is an agent: it answers by its own prompt, tools, guardrails and settings, and is told nothing of the bundle's",
        f"{bundle.scenarios['s'].location}: consent and failures of tools in scenario 's' do not reach agent 'clerk': it calls its own tools",
    ]


async def test_an_agent_that_is_not_running_gives_errors_and_no_failures(write: Write) -> None:
    """What its status says is the item's error; no attempt after this one would end better."""
    bundle = write([{"role": "user", "content": "Hi", "assertions": [{"type": "contains", "params": {"patterns": ["x"]}}]}], {})
    (result,) = await run(bundle, planned(bundle, {"default": (agent("", trouble="AgentRuntime 'clerk' is Pending"),)}))
    assert result.error is not None
    assert (result.verdict, result.error.kind, result.checks, result.retryable) == (Verdict.ERROR, "provider.unavailable", [], False)
    assert "AgentRuntime 'clerk' is Pending" in result.error.message


async def test_whoever_waits_for_an_agent_says_so(write: Write) -> None:
    """While an agent cannot be reached the engine names it, with the cause."""
    bundle = write([{"role": "user", "content": "Hi"}], {})
    plan = planned(bundle, {"default": (agent("127.0.0.1:9"),)})
    async with running(bundle, plan) as runner:
        item = asyncio.create_task(runner.run(plan.items[0]))
        await until(lambda: bool(runner.troubles))
        assert list(runner.troubles) == ["clerk"]
        assert "cannot ask agent 'clerk'" in runner.troubles["clerk"]
        item.cancel()
        await asyncio.wait((item,))


async def test_a_conversation_whose_agent_was_lost_is_held_again_from_its_beginning(write: Write) -> None:
    """The attempt that lost its connection is an error that may be tried again; the next one says everything anew, to a new session."""
    bundle = write([{"role": "user", "content": text} for text in ("one", "two")], {})
    scripted = ScriptedAgent([chunk("1"), done()], [chunk("2"), HANG_UP])
    async with serving(scripted.serve) as endpoint:
        plan = planned(bundle, {"default": (agent(endpoint),)})
        async with running(bundle, plan) as runner:
            first = await runner.run(plan.items[0])
            scripted.turns = ([chunk("1"), done()], [chunk("2"), done()])
            second = await runner.run(plan.items[0], attempt=2)
    assert first.error is not None
    assert (first.verdict, first.error.kind, first.retryable) == (Verdict.ERROR, "provider.unavailable", True)
    assert (second.verdict, roles(second)) == (Verdict.PASS, ["user", "assistant", "user", "assistant"])
    assert [message["content"] for message in scripted.heard] == ["one", "two", "one", "two"]


@pytest.mark.parametrize(
    ("more", "variable"),
    [
        pytest.param({"credential": {"credential_env": "ARENA_CREDENTIAL_0"}}, "ARENA_CREDENTIAL_0", id="named"),
        pytest.param({}, "AGENT_TOKEN_CLERK", id="the agent's own"),
    ],
)
async def test_a_token_reaches_the_agent_by_its_variable(write: Write, more: dict[str, Any], variable: str) -> None:
    """The plan names a variable at most, and never the token; neither does the result."""
    bundle = write([{"role": "user", "content": "Hi"}], {})
    plain = PlainAgent(_echo)
    async with hosted(plain, ServerOptions("s3cret-token")) as (_, endpoint):
        plan = planned(bundle, {"default": (agent(endpoint, **more),)})
        (result,) = await run(bundle, plan, Connections({variable: "s3cret-token"}))
        (refused,) = await run(bundle, plan, Connections({variable: "an0ther"}))
    assert result.verdict is Verdict.PASS
    assert refused.error is not None
    assert (refused.error.kind, refused.retryable) == ("provider.authentication", False)
    assert b"s3cret-token" not in plan.to_bytes()
    assert "an0ther" not in refused.error.message


async def test_a_simulated_user_and_a_judge_may_be_agents(write: Write) -> None:
    """A persona is told who it is in its first message and remembers it; each question to a judge is a session of its own."""
    heard: dict[str, list[str]] = {"user": [], "judge": []}

    async def answer(who: str, says: str, content: str, emit: Emit) -> None:
        heard[who].append(content)
        emit(Said(says))
        emit(Done())

    async def speak(content: str, emit: Emit) -> None:
        await answer("user", f"Question {len(heard['user']) + 1}.", content, emit)

    async def judge(content: str, emit: Emit) -> None:
        await answer("judge", '{"score": 0.9, "passed": true, "reasoning": "kind"}', content, emit)

    model = {"type": "mock", "model": "u"}
    bundle = write(
        [
            {
                "role": "player",
                "persona": "ann",
                "turns": 2,
                "assertions": [{"type": "llm_judge", "params": {"criteria": "kindness", "min_score": 0.5}}],
            }
        ],
        {1: "Answer one.", 2: "Answer two."},
        arena={
            "provider_specs": {"speaker": model, "critic": model},
            "self_play": {
                "persona_specs": {"ann": {"description": "d", "system_template": "You are Ann."}},
                "roles": [{"id": "player", "provider": "speaker"}],
            },
            "judges": [{"name": "j", "provider": "critic"}],
        },
        scenario={"providers": ["m"]},
    )
    speaker, critic = PlainAgent(speak), PlainAgent(judge)
    async with hosted(speaker) as (_, user_at), hosted(critic) as (_, judge_at):
        providers = {
            "default": {"m": ResolvedProvider("m", bundle.providers["m"].spec)},
            "selfplay": {"speaker": agent(user_at, "speaker")},
            "judge": {"critic": agent(judge_at, "critic")},
        }
        (result,) = await run(bundle, planned(bundle, providers))
    assert result.error is None
    assert [(m["role"], m["content"]) for m in result.messages if m["role"] in ("user", "assistant")] == [
        ("user", "Question 1."),
        ("assistant", "Answer one."),
        ("user", "Question 2."),
        ("assistant", "Answer two."),
    ]
    assert heard["user"][0].startswith("You are Ann.")
    assert heard["user"][1] == "Answer one."
    assert all("kindness" in told for told in heard["judge"])
    assert [check.score for check in result.checks] == [0.9, 0.9]


async def test_the_mock_override_replaces_agents_too(write: Write) -> None:
    """With the override nothing is real, and the prompt is told again."""
    bundle = write([{"role": "user", "content": "Hi"}], {})
    plan = planned(bundle, {"default": (agent("127.0.0.1:1"),)}, mock=MockOverride())
    (result,) = await run(bundle, plan)
    assert (result.verdict, roles(result)) == (Verdict.PASS, ["system", "user", "assistant"])
    assert not [warning for warning in plan.warnings if "agent" in warning]


async def test_two_hundred_conversations_at_once_are_two_hundred_sessions(write: Write) -> None:
    """Each has a connection of its own for all its turns, hears its own replies, and leaves no task and no socket."""
    most = 0

    async def count(content: str, emit: Emit) -> None:
        nonlocal most
        most = max(most, plain.open)
        if content == "turn 1":
            await met.wait()
        await _echo(content, emit)

    met = asyncio.Barrier(200)
    plain = PlainAgent(count)
    check = {"type": "contains", "params": {"patterns": ["turn"]}}
    bundle = write([{"role": "user", "content": f"turn {turn}", "assertions": [check]} for turn in (1, 2)], {})
    before = open_ends()
    async with hosted(plain) as (server, endpoint):
        plan = planned(bundle, {"default": (agent(endpoint),)}, trials=200)
        async with asyncio.timeout(60):
            results = await run(bundle, plan)
    assert [result.verdict for result in results] == [Verdict.PASS] * 200
    assert [[m["content"] for m in result.messages] for result in results] == [["turn 1", "turn 1", "turn 2", "turn 2"]] * 200
    assert len({result.messages[1]["meta"]["agentSession"] for result in results}) == most == 200
    assert (server.sessions, plain.open) == (0, 0)
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()} and open_ends() <= before)


async def _echo(content: str, emit: Emit) -> None:
    emit(Said(content))
    emit(Done())


@pytest.mark.parametrize("late", ["chunk", "done"])
async def test_an_item_whose_time_is_over_lets_its_agent_go(write: Write, late: str) -> None:
    """Cancelling an item ends its session wherever the reply stands."""
    held = asyncio.Event()

    async def hold(content: str, emit: Emit) -> None:
        if late == "done":
            emit(Said(content))
        held.set()
        await asyncio.Event().wait()

    plain = PlainAgent(hold)
    bundle = write([{"role": "user", "content": "Hi"}], {})
    async with hosted(plain) as (_, endpoint):
        plan = planned(bundle, {"default": (agent(endpoint),)})
        async with running(bundle, plan) as runner:
            task = asyncio.create_task(runner.run(plan.items[0]))
            await held.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert plain.open == 0
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
