"""A run through a worker against a model that misbehaves: nothing is scored wrongly, the run comes to its end, and totals add up."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine.bundle import load_bundle
from engine.conversation import ItemRunner
from engine.items import RunUID, Usage, Verdict
from engine.permissions import Permissions
from engine.plan import Plan, PlanRequest, make_plan
from engine.plan import WorkerOptions as PlanOptions
from engine.providers.connections import Connections
from engine.queue.memory import MemoryWorkQueue
from engine.queue.port import RunMeta
from engine.records import Record
from engine.worker import Worker, WorkerOptions
from tests.providers.vendor_server import Close, Cut, Pause, Seen, Step, VendorServer, answer, chunk, stream_head

SPEED = 20
"""How many seconds of a run pass in one of a test."""

IN_FLIGHT = 50
PROMPT, COMPLETION = 7, 5
HEAD = "apiVersion: promptkit.altairalabs.ai/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: "
RUN = RunUID("faults")


class FastClock:
    """The machine's clock, sped up; waits and durations of a run are short here, and in proportion."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()

    def now(self) -> datetime:
        """Return a wall clock."""
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return the seconds of the run so far."""
        return (self._loop.time() - self._began) * SPEED

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(max(0.0, seconds) / SPEED)


@dataclass
class Model:
    """Answers right each time that it does; what goes wrong is `fault`'s: steps instead of an answer, or none."""

    clock: FastClock
    fault: Callable[["Model", Seen], Sequence[Step] | None]
    latency_s: float = 0.2
    at_once: int = 0
    asked: int = 0
    answered: list[float] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    dice: random.Random = field(default_factory=lambda: random.Random(11))  # noqa: S311 - the same faults each time

    async def __call__(self, seen: Seen) -> Sequence[Step]:
        """Answer one request."""
        self.asked += 1
        self.at_once += 1
        try:
            steps = self.fault(self, seen)
            if steps is not None:
                return steps
            await self.clock.sleep(self.latency_s)
        finally:
            self.at_once -= 1
        self.answered.append(self.clock.monotonic())
        return [streamed() if seen.json.get("stream") else whole()]

    def refuse(self, name: str, *steps: Step) -> Sequence[Step]:
        """Count a fault, and return it."""
        self.faults[name] += 1
        return steps


def whole() -> bytes:
    """Return an answer."""
    message = {"role": "assistant", "content": "the answer is 42"}
    usage = {"prompt_tokens": PROMPT, "completion_tokens": COMPLETION}
    return answer({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})


def streamed(*, ends: bool = True) -> bytes:
    """Return an answer as a stream; one that does not end well breaks off before the answer is whole."""
    first = b'data: {"choices": [{"index": 0, "delta": {"content": "the answer is "}}]}\n\n'
    last = b'data: {"choices": [{"index": 0, "delta": {"content": "42"}, "finish_reason": "stop"}]}\n\n'
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": %d, "completion_tokens": %d}}\n\ndata: [DONE]\n\n' % (PROMPT, COMPLETION)
    return stream_head() + chunk(first) + ((chunk(last + usage) + b"0\r\n\r\n") if ends else b"0\r\n\r\n")


def plan_of(folder: Path, url: str, *, items: int, streaming: bool) -> Plan:
    """Write a bundle of one scenario and one model, and plan so many items of it."""
    files = {
        "config.arena.yaml": HEAD.format(kind="Arena", name="faults")
        + "{prompt_configs: [{id: p, file: p.yaml}], providers: [{file: m.yaml}], scenarios: [{file: s.yaml}], defaults: {max_tokens: 100}}",
        "p.yaml": HEAD.format(kind="PromptConfig", name="p") + "{task_type: t, version: v1.0.0, description: d, system_template: Answer.}",
        "m.yaml": HEAD.format(kind="Provider", name="m")
        + f'{{type: openai, model: m, base_url: "{url}/v1", credential: {{credential_env: KEY}}, request_timeout: {2 if streaming else 30}s,'
        + " pricing: {input_cost_per_1k: 0.001, output_cost_per_1k: 0.002}}",
        "s.yaml": HEAD.format(kind="Scenario", name="s")
        + f"{{task_type: t, description: d, trials: {items}, streaming: {str(streaming).lower()},"
        + " turns: [{role: user, content: question, assertions: [{type: content_includes, params: {patterns: ['42']}}]}]}",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    options = PlanOptions(concurrency=IN_FLIGHT, max_attempts=6, permissions=Permissions(networks=("127.0.0.0/8",)))
    return make_plan(load_bundle(folder, "config.arena.yaml"), PlanRequest(), options)


async def records_of(folder: Path, server: VendorServer, model: Model, *, items: int, streaming: bool = False) -> list[Record]:
    """Work a run of so many items against a model, and return its records."""
    server.answering = model
    plan, clock = plan_of(folder, server.url, items=items, streaming=streaming), model.clock
    queue = MemoryWorkQueue(clock)
    await queue.pin(RUN, RunMeta(plan.digest, items))
    await queue.publish_plan(RUN, plan.to_bytes())
    await queue.put(RUN, 0, [(item.index, item.id) for item in plan.items], last=True)

    def build(read: Plan) -> ItemRunner:
        return ItemRunner(load_bundle(folder, read.arena_file), read, clock, Connections({"KEY": "sk-1"}))

    left = await Worker(queue, RUN, build, None, WorkerOptions("w", lease_s=1200, renew_s=60), clock).work()
    assert left.code == 0
    return [record async for record in queue.records(RUN)]


def check_totals(records: Sequence[Record], items: int) -> None:
    """Each item is counted once and passed; tokens and money are those of one answer an item, however often it was asked for."""
    assert sorted(record.index for record in records) == list(range(items))
    assert Counter(record.verdict for record in records) == {Verdict.PASS: items}
    assert sum((record.usage for record in records), Usage()) == Usage(items * PROMPT, items * COMPLETION)
    assert sum(record.cost_usd or 0.0 for record in records) == pytest.approx(items * (PROMPT * 0.001 + COMPLETION * 0.002) / 1000)


@pytest.mark.slow
async def test_a_provider_that_is_down_for_a_minute_costs_no_item(server: VendorServer, tmp_path: Path) -> None:
    """In the middle of a run of 1,000 items nobody is answered for a minute: every item still passes, and the pace comes back."""
    down: list[float] = []

    def fault(model: Model, _seen: Seen) -> Sequence[Step] | None:
        if len(model.answered) < 300:
            return None
        down[:] = down or [model.clock.monotonic() + 60]
        return model.refuse("down", Cut()) if model.clock.monotonic() < down[0] else None

    model = Model(FastClock(), fault)
    records = await records_of(tmp_path, server, model, items=1000)
    check_totals(records, 1000)
    assert sum(record.attempt > 1 for record in records) < IN_FLIGHT // 2  # on a busy machine some lose their patience, and are tried again
    assert model.faults["down"] >= IN_FLIGHT
    first_back = min(at for at in model.answered if at >= down[0])
    assert first_back < down[0] + 60
    assert model.faults["down"] < 20 * IN_FLIGHT  # nobody hammers a provider that is down
    assert {record.ttft_ms for record in records} == {None}
    caught = [record for record in records if record.duration_ms > 50_000]
    assert caught
    assert all(record.provider_latency_ms < record.duration_ms / 2 for record in caught)  # an outage is no latency of an answer


async def test_a_storm_of_refusals_is_adapted_to(server: VendorServer, tmp_path: Path) -> None:
    """A provider that refuses everybody at first, and then takes ten at once, answers every item, and is soon asked no more than it takes."""

    def fault(model: Model, _seen: Seen) -> Sequence[Step] | None:
        is_storm = model.faults["429"] < IN_FLIGHT or model.at_once > 10
        return model.refuse("429", answer({"error": {"message": "slow down"}}, 429, {"Retry-After": "1"})) if is_storm else None

    model = Model(FastClock(), fault)
    records = await records_of(tmp_path, server, model, items=240)
    check_totals(records, 240)
    assert IN_FLIGHT <= model.faults["429"] < 200


async def test_bursts_of_server_errors_are_waited_out(server: VendorServer, tmp_path: Path) -> None:
    """Bursts of 500, 502, 503 and 529 with answers between them end no item."""

    def fault(model: Model, _seen: Seen) -> Sequence[Step] | None:
        status = (500, 502, 503, 529)[model.asked % 4]
        return model.refuse("5xx", answer(b"<html>oops</html>", status)) if (model.asked // 40) % 3 == 1 else None

    model = Model(FastClock(), fault)
    check_totals(await records_of(tmp_path, server, model, items=240), 240)
    assert model.faults["5xx"] >= 20


async def test_sockets_that_close_halfway_are_no_answers(server: VendorServer, tmp_path: Path) -> None:
    """An answer that is cut, reset, or never begun counts for nothing, and is asked for again."""
    cuts: tuple[tuple[Step, ...], ...] = ((whole()[:-9], Close()), (whole()[:60], Cut()), (Close(),), (b"HTTP/1.1 200 OK\r\nContent-", Close()))

    def fault(model: Model, _seen: Seen) -> Sequence[Step] | None:
        return model.refuse("cut", *model.dice.choice(cuts)) if model.dice.random() < 0.2 else None

    model = Model(FastClock(), fault)
    check_totals(await records_of(tmp_path, server, model, items=240), 240)
    assert model.faults["cut"] >= 20


async def test_slow_and_broken_streams_are_asked_for_again(server: VendorServer, tmp_path: Path) -> None:
    """A first token that does not come in time, and a stream that ends before the answer, make another attempt; a half answer is never judged."""

    def fault(model: Model, _seen: Seen) -> Sequence[Step] | None:
        if model.asked in {5, 25}:
            return model.refuse("silent", stream_head(), Pause(4), Close())
        if model.dice.random() < 0.1:
            return model.refuse("broken", streamed(ends=False))
        return model.refuse("empty", stream_head() + b"0\r\n\r\n") if model.dice.random() < 0.1 else None

    model = Model(FastClock(), fault)
    records = await records_of(tmp_path, server, model, items=200, streaming=True)
    check_totals(records, 200)
    assert all(record.ttft_ms is not None for record in records)
    assert min(model.faults[name] for name in ("broken", "empty")) >= 5
    assert model.faults["silent"] == 2


SPENT = {"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}}


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(answer(SPENT, 429), id="in words"),
        pytest.param(answer({"error": {"message": "slow down"}}, 429, {"Retry-After": "3600"}), id="by an hour's wish"),
    ],
)
async def test_an_exhausted_quota_ends_items_as_errors(server: VendorServer, tmp_path: Path, said: bytes) -> None:
    """Once there is no money left, each item that is left ends as an error after one request; none of them is a failure, and none is scored."""

    def fault(model: Model, _seen: Seen) -> Sequence[Step] | None:
        return model.refuse("quota", said) if model.asked > 100 else None

    model = Model(FastClock(), fault)
    records = await records_of(tmp_path, server, model, items=200)
    counts = Counter((record.verdict, record.error.kind if record.error else "") for record in records)
    assert counts == {(Verdict.PASS, ""): 100, (Verdict.ERROR, "provider.rate_limit"): 100}
    assert model.asked == 200
