"""Plans and results to settle: small, deterministic, of any shape."""

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine.items import CheckResult, Item, ItemError, ItemResult, Scope, Usage, Verdict
from engine.permissions import NO_PERMISSIONS, Permissions
from engine.records import Record, record_of
from engine.results.lines import item_line
from engine.results.parts import PARTS, PartWriter

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Mock:
    """Every provider replaced by the mock."""

    config: str | None = None


@dataclass(frozen=True)
class FakePlan:
    """What results need of a plan."""

    items: tuple[Item, ...]
    mocked: Mock | None = None
    arena_file: str = "config.arena.yaml"
    permissions: Permissions = NO_PERMISSIONS
    own_providers: bool = True

    def with_mock(self, config: str | None) -> "FakePlan":
        """Return this plan, mocked."""
        return replace(self, mocked=Mock(config))


@dataclass(frozen=True)
class FakeLease:
    """The facts of a lease that a record keeps."""

    worker: str = "w-0-ab12"
    entry: str = "1-0"
    deliveries: int = 1
    crashes: int = 0


PlanOf = Callable[..., FakePlan]
ResultOf = Callable[..., ItemResult]


@pytest.fixture
def plan_of() -> PlanOf:
    """Return a function that crosses scenarios, providers and trials into a plan."""

    def build(scenarios: Iterable[str] = ("a", "b"), providers: Iterable[str] = ("p",), trials: int = 1) -> FakePlan:
        keys = [(s, p, t) for s in scenarios for p in providers for t in range(1, trials + 1)]
        return FakePlan(tuple(Item(index, *key) for index, key in enumerate(keys)))

    return build


@pytest.fixture
def result_of() -> ResultOf:
    """Return a function that makes the result of an item: one turn check and one conversation check, text as the model's answer."""

    def build(item: Item, verdict: Verdict = Verdict.PASS, *, text: str = "hello", latency_ms: float = 10.0) -> ItemResult:
        passed = verdict is Verdict.PASS
        started = AT + timedelta(seconds=item.index)
        return ItemResult(
            item=item,
            verdict=verdict,
            started_at=started,
            ended_at=started + timedelta(milliseconds=20),
            error=ItemError("provider.timeout", text) if verdict is Verdict.ERROR else None,
            checks=[
                CheckResult(Scope.TURN, 0, "content_includes", passed=passed, score=float(passed), message="" if passed else text),
                CheckResult(Scope.CONVERSATION, None, "tools_called", passed=True),
            ],
            turns=1,
            messages=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": text}],
            usage=Usage(5, 7),
            cost_usd=0.0002,
            provider_latency_ms=latency_ms,
            duration_ms=20.0,
        )

    return build


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    """Return the directory of a run."""
    return tmp_path / "runs" / "r1"


WriteParts = Callable[..., list[Record]]


@pytest.fixture
def write_parts(run_directory: Path) -> WriteParts:
    """Return a function that writes results into the parts of two workers in turn, as workers do, and returns their records in that order."""

    def write(results: Iterable[ItemResult], run: str = "r1") -> list[Record]:
        writers = [PartWriter(run_directory / PARTS / f"w-{number}.jsonl") for number in (0, 1)]
        records = []
        for number, result in enumerate(results):
            (place,) = writers[number % 2].append([item_line(result, run)])
            records.append(record_of(result, line=place, lease=FakeLease()))
        for writer in writers:
            writer.sync()
            writer.close()
        return records

    return write


@pytest.fixture
def stream() -> Callable[[Iterable[Record]], AsyncIterator[Record]]:
    """Return a function that yields records as a queue does."""

    async def yield_all(records: Iterable[Record]) -> AsyncIterator[Record]:
        for record in records:
            yield record

    return yield_all
