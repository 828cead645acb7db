"""The runner: what becomes of an item that cannot be held, and what is shared between items."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from engine.bundle.model import Bundle
from engine.checks.questions import Answers
from engine.conversation.asking import Line
from engine.conversation.holding import Holder
from engine.conversation.provider_set import ProviderSet
from engine.conversation.runner import ItemRunner
from engine.conversation.script import compile_script
from engine.conversation.session import Session
from engine.conversation.transcript import Transcript
from engine.errors import FeatureNotSupported, ProviderError
from engine.items import Item, Verdict
from engine.plan import MockOverride, Plan, PlanRequest, make_plan
from engine.providers.port import Chunk, Provider, Reply, Request, Sampling
from foundation.clock import FakeClock, SystemClock

Write = Callable[..., Bundle]

TURNS = [{"role": "user", "content": "Hi", "assertions": [{"type": "content_includes", "params": {"patterns": ["hello"]}}]}]


@pytest.fixture
def bundle(write: Write) -> Bundle:
    """Return a bundle of one scenario, repeated."""
    return write(TURNS, {1: "hello"}, scenario={"trials": 3})


@pytest.fixture
def plan(bundle: Bundle) -> Plan:
    """Return its plan."""
    return make_plan(bundle, PlanRequest())


class Failing:
    """A provider that raises what it was given, or hangs."""

    def __init__(self, error: Exception | None, *, always_streams: bool = False) -> None:
        self._error = error
        self._always_streams = always_streams

    @property
    def always_streams(self) -> bool:
        """Say how it wants to be asked."""
        return self._always_streams

    async def complete(self, request: Request) -> Reply:
        """Raise, or never return."""
        del request
        if self._error is not None:
            raise self._error
        return await asyncio.Future()

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Say something and break off."""
        del request
        yield Chunk("hel")

    async def close(self) -> None:
        """Do nothing."""


def with_provider(runner: ItemRunner, provider: Provider) -> ItemRunner:
    """Return the runner with its one provider exchanged."""
    runner._providers._subjects["m"] = (provider, Sampling())
    return runner


async def test_items_run_at_once_and_alike(bundle: Bundle, plan: Plan) -> None:
    """Conversations share nothing: items that run at once have equal transcripts, results and clean totals."""
    runner = ItemRunner(bundle, plan, FakeClock())
    results = await asyncio.gather(*(runner.run(item, attempt=2) for item in plan.items))
    assert [result.item.trial for result in results] == [1, 2, 3]
    assert {str(result.messages) for result in results} == {str(results[0].messages)}
    assert {(result.verdict, result.attempt, result.usage.output_tokens) for result in results} == {(Verdict.PASS, 2, 1)}


@pytest.mark.parametrize(
    ("error", "kind", "retry"),
    [
        pytest.param(
            ProviderError("busy", kind="rate_limit", transient=True, retry_after_s=7), "provider.rate_limit", (True, 7), id="one that may pass"
        ),
        pytest.param(ProviderError("no key", kind="authentication", transient=False), "provider.authentication", (False, None), id="one that stays"),
        pytest.param(RuntimeError("a bug"), "internal", (False, None), id="a fault of ours"),
    ],
)
async def test_a_failure_is_an_error_not_a_score(bundle: Bundle, plan: Plan, error: Exception, kind: str, retry: tuple[bool, float | None]) -> None:
    """An item whose provider fails has verdict error, says whether to try again, keeps its transcript, and evaluates no check."""
    result = await with_provider(ItemRunner(bundle, plan, SystemClock()), Failing(error)).run(plan.items[0])
    assert (result.verdict, result.checks) == (Verdict.ERROR, [])
    assert result.error is not None
    assert (result.error.kind, result.error.message) == (kind, str(error))
    assert (result.retryable, result.retry_after_s) == retry
    assert [message["role"] for message in result.messages] == ["system", "user"]


async def test_a_stream_that_breaks_off_is_an_error(bundle: Bundle, plan: Plan) -> None:
    """A reply without its end is no reply."""
    result = await with_provider(ItemRunner(bundle, plan, SystemClock()), Failing(None, always_streams=True)).run(plan.items[0])
    assert result.error is not None
    assert (result.verdict, result.error.kind, result.retryable) == (Verdict.ERROR, "provider.protocol", True)


async def test_cancelling_passes_through(bundle: Bundle, plan: Plan) -> None:
    """A cancelled item is no result: the worker decides what that means."""
    task = asyncio.ensure_future(with_provider(ItemRunner(bundle, plan, SystemClock()), Failing(None)).run(plan.items[0]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("item", "words"),
    [
        pytest.param(Item(0, "gone", "m", 1), "no such scenario", id="a scenario that is not there"),
        pytest.param(Item(0, "s", "gone", 1), "the plan does not have it", id="a provider that is not there"),
    ],
)
async def test_an_item_of_another_plan_is_an_error(bundle: Bundle, plan: Plan, item: Item, words: str) -> None:
    """An item that the bundle or the plan does not know is an error with its reason."""
    result = await ItemRunner(bundle, plan, SystemClock()).run(item)
    assert (result.verdict, result.retryable) == (Verdict.ERROR, False)
    assert result.error is not None
    assert words in result.error.message


async def test_simulated_latency_is_provider_latency(write: Write) -> None:
    """The mock's `latency_ms` counts as the provider's, per call, on the clock that everything else reads."""
    bundle = write(TURNS, {1: "hello"}, provider={"additional_config": {"mock_config": "mock.yaml", "latency_ms": 50}})
    plan = make_plan(bundle, PlanRequest())
    clock = FakeClock()
    task = asyncio.ensure_future(ItemRunner(bundle, plan, clock).run(plan.items[0]))
    await clock.advance(0)
    await clock.advance(0.05)
    result = await task
    assert [result.provider_latency_ms, result.ttft_ms, result.duration_ms] == pytest.approx([50, 50, 50])
    assert result.messages[-1]["latencyMs"] == pytest.approx(50)


async def test_generic_replies_under_the_override(write: Write) -> None:
    """Replaced without a response file, a provider says one fixed sentence."""
    bundle = write(TURNS, {1: "hello"}, provider={"type": "openai", "model": "gpt", "additional_config": {}})
    plan = make_plan(bundle, PlanRequest(mock=MockOverride()))
    result = await ItemRunner(bundle, plan, SystemClock()).run(plan.items[0])
    assert (result.messages[-1]["content"], result.verdict) == ("Mock response from provider", Verdict.FAIL)


def test_a_provider_that_is_not_built_is_refused(write: Write) -> None:
    """A runner is not built around a provider that it could not ask."""
    bundle = write(TURNS, {1: "hello"}, provider={"type": "cartesia", "model": "sonic", "additional_config": {}})
    with pytest.raises(FeatureNotSupported, match="type cartesia is not built"):
        ItemRunner(bundle, make_plan(bundle, PlanRequest()), SystemClock())


async def test_whole_replies_are_taken_where_nobody_streams(bundle: Bundle, nobody: Answers) -> None:
    """A provider that does not insist on streaming is asked for whole replies, and then has no time to the first token."""

    class Whole(Failing):
        async def complete(self, request: Request) -> Reply:
            return Reply(f"hello {request.system}", cost_usd=0.5)

    transcript, results = Transcript(), []  # type: ignore[var-annotated]
    script = compile_script(bundle, bundle.scenarios["s"])
    session = Session(
        script, Line(Whole(None), Sampling(), FakeClock(), nobody), transcript, ProviderSet(bundle, make_plan(bundle, PlanRequest()), FakeClock())
    )
    await Holder(session, Item(0, "s", "m", 1), results).hold()
    assert (transcript.messages[-1].content, transcript.cost_usd, transcript.ttft_ms) == ("hello Be kind.", 0.5, None)


@pytest.mark.parametrize(
    ("arena", "provider", "sampled"),
    [
        pytest.param({}, {}, Sampling(), id="nothing said"),
        pytest.param({}, {"defaults": {"temperature": 0.2, "max_tokens": 9}}, Sampling(temperature=0.2, max_tokens=9), id="the provider's"),
        pytest.param({"temperature": 0.7, "seed": 4}, {"defaults": {"temperature": 0.2}}, Sampling(temperature=0.7, seed=4), id="the arena's wins"),
        pytest.param({"temperature": 0.7}, {"unsupported_params": ["temperature"]}, Sampling(), id="not where it is not supported"),
    ],
)
def test_sampling(write: Write, arena: dict[str, Any], provider: dict[str, Any], sampled: Sampling) -> None:
    """The arena's request defaults win over the provider's, and unsupported parameters are left out."""
    bundle = write(TURNS, {1: "hello"}, arena={"defaults": arena}, provider=provider)
    assert ItemRunner(bundle, make_plan(bundle, PlanRequest()), SystemClock())._providers.get("m")[1] == sampled


async def test_a_judge_that_nobody_asks_is_not_built(write: Write) -> None:
    """A provider that only serves a judge need not be built: the scenarios that would ask it are refused when they are planned."""
    specs = {"provider_specs": {"j": {"type": "openai", "model": "x"}}, "judges": [{"name": "j", "provider": "j"}]}
    bundle = write(TURNS, {1: "hello"}, arena=specs, scenario={"providers": ["m"]})
    plan = make_plan(bundle, PlanRequest())
    runner = ItemRunner(bundle, plan, SystemClock())
    assert (await runner.run(plan.items[0])).verdict is Verdict.PASS
    await runner.close()


async def test_a_check_that_breaks_is_the_reason(write: Write) -> None:
    """An item whose verdict is error because a check could not be evaluated names that check."""
    check = {"type": "json_path", "params": {"expression": "|".join(["[@,@]"] * 40), "min_results": 1}}
    bundle = write([{"role": "user", "content": "Hi", "assertions": [check]}], {1: "{}"})
    plan = make_plan(bundle, PlanRequest())
    result = await ItemRunner(bundle, plan, SystemClock()).run(plan.items[0])
    assert result.error is not None
    assert (result.verdict, result.error.kind) == (Verdict.ERROR, "check")
    assert result.error.message.startswith("cannot evaluate check 'json_path': ")
