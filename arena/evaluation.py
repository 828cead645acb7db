"""An evaluation in this process: the same plan, runner and results as a run, without git, queue or store."""

import asyncio
import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from arena.settings import process_environment
from engine.bundle import load_bundle
from engine.bundle.model import Bundle
from engine.bundle.supported import check_supported
from engine.conversation import ItemRunner
from engine.items import Item, ItemResult
from engine.permissions import NO_PERMISSIONS, Permissions
from engine.plan import MockOverride, Plan, PlanRequest, WorkerOptions, make_plan
from engine.providers.connections import Connections
from engine.providers.prices import Price
from engine.providers.specs import is_built
from engine.results.collected import CollectedResults
from engine.results.summary import RunIdentity
from engine.worker_items import execute, retry_delay_s
from foundation.clock import SystemClock


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What to evaluate. `mock` is None without the mock, "" for each provider's own answers, or the path of the answers. `media_cache` keeps what is fetched."""

    root: Path
    arena_file: str
    scenarios: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    trials: int | None = None
    mock: str | None = None
    concurrency: int = 16
    permissions: Permissions = NO_PERMISSIONS
    prices: Mapping[str, Price] = field(default_factory=dict)
    media_cache: Path | None = None


def planned(request: EvaluationRequest) -> tuple[Bundle, Plan]:
    """Return a bundle and the plan of what is asked of it.

    Raises:
        EngineError: the bundle, a filter or a feature is refused.
    """
    bundle = load_bundle(request.root, request.arena_file)
    plan = make_plan(
        bundle,
        PlanRequest(
            arena_file=request.arena_file,
            trials=request.trials,
            include=(),
            exclude=(),
            providers=None,
            mock=None if request.mock is None else MockOverride(config=request.mock or None, outside=True),
            only_scenarios=request.scenarios,
            only_providers=request.providers,
        ),
        WorkerOptions(concurrency=request.concurrency, permissions=request.permissions, prices=request.prices),
    )
    check_supported(bundle, plan)
    return bundle, plan


class Evaluation:
    """One evaluation: planned when it is made, run once.

    Raises (when made):
        EngineError: the bundle, a filter or a feature is refused; nothing has run.
    """

    def __init__(self, request: EvaluationRequest) -> None:
        self._request = request
        self._clock = SystemClock()
        self._runner: ItemRunner | None = None
        self._begun: set[str] = set()
        self._delayed: dict[str, tuple[str, str]] = {}  # by item: its provider, and why it waits to be run again
        self.bundle, self.plan = planned(request)
        self.warnings = (*self.bundle.warnings, *self.plan.warnings)
        self.results = CollectedResults(RunIdentity(repository=str(request.root)), self.plan)

    @property
    def asks_models(self) -> bool:
        """Return whether a model is asked over the network."""
        return any(is_built(spec) for spec in (*self.plan.providers.values(), *self.plan.serving.values()))

    @property
    def troubles(self) -> Mapping[str, str]:
        """Return why requests to models, or whole items, wait to be made again, by provider; nothing before the run."""
        return dict(self._delayed.values()) | dict({} if self._runner is None else self._runner.troubles)

    async def run(self) -> None:
        """Run every item, `concurrency` at a time; memory does not grow with their number. Cancelled, it keeps the results there are, and skips the rest."""
        if self.asks_models:
            _make(self._request.media_cache)
        runner = self._runner = ItemRunner(
            self.bundle, self.plan, self._clock, Connections(process_environment(), media_cache=self._request.media_cache)
        )
        items = iter(self.plan.items)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._request.concurrency, len(self.plan.items))):
                    group.create_task(self._work(runner, items))
        except asyncio.CancelledError:
            self.results.stop("cancelled", self._clock.now(), self._begun)
            raise
        finally:
            await runner.close()

    async def _work(self, runner: ItemRunner, items: Iterator[Item]) -> None:
        for item in items:
            self._begun.add(item.id)
            self.results.add(await self._attempt(runner, item))
            self._begun.remove(item.id)

    async def _attempt(self, runner: ItemRunner, item: Item) -> ItemResult:
        """Run an item as a worker would: within the plan's time, and again while another attempt may end better."""
        plan = self.plan
        for attempt in range(1, plan.max_attempts + 1):
            result = await execute(runner, item, attempt=attempt, timeout_s=plan.item_timeout_s, clock=self._clock)
            if not result.retryable or attempt == plan.max_attempts:
                break
            wish, chance = result.retry_after_s, random.random()  # noqa: S311 - spreads load, guards nothing
            await self._delay(result, retry_delay_s(attempt=attempt, backoff_s=plan.retry_backoff_s, retry_after_s=wish, chance=chance))
        return result

    async def _delay(self, result: ItemResult, seconds: float) -> None:
        """Wait before the next attempt, and meanwhile say why: a provider's wish may be minutes."""
        item, why = result.item, result.error.message if result.error else ""
        self._delayed[item.id] = item.provider, f"{why} (its item waits {seconds:.0f} s)"
        try:
            await self._clock.sleep(seconds)
        finally:
            del self._delayed[item.id]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.results.close()


def _make(folder: Path | None) -> None:
    """Make a folder for media. Where it cannot be made, only who has media needs to hear of it."""
    if folder is not None:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
