"""Run items: find the script and the provider of each, hold its conversation, and say what became of it.

One runner serves a process for thousands of items, many at once: what does not depend on the item is compiled once. Conversations share nothing
that changes. Must not know queues, files of results, or how many attempts an item has.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.bundle.model import NOTHING, Bundle
from engine.bundle.outside_names import reaches_outside
from engine.bundle.registry_tools import with_registry_tools
from engine.conversation.asking import Line
from engine.conversation.hearing import Hearing
from engine.conversation.holding import Holder
from engine.conversation.provider_set import ProviderSet
from engine.conversation.provider_window import within_window
from engine.conversation.script import Script, compile_script
from engine.conversation.session import Session
from engine.conversation.tool_loop import ToolLoopStopped
from engine.conversation.transcript import Transcript
from engine.errors import (
    BundleInvalid,
    CompositionFailed,
    ContextExceeded,
    EngineError,
    JudgeFailed,
    MediaUnavailable,
    ProviderError,
    ToolsUnavailable,
)
from engine.items import CheckResult, Item, ItemError, ItemResult, Scope, Verdict
from engine.plan import Plan
from engine.providers.connections import NO_CONNECTIONS, Connections
from engine.providers.ledger import Ledger
from engine.providers.messages import Message, message_json
from foundation.clock import Clock

if TYPE_CHECKING:
    from engine.judging.bench import Bench
    from engine.tools.outside import Outside


_KINDS: Mapping[type[Exception], str] = {
    ToolLoopStopped: "tool_loop",
    ContextExceeded: "context",
    CompositionFailed: "composition",
    JudgeFailed: "judge",
    ToolsUnavailable: "tools",
    MediaUnavailable: "media",
    BundleInvalid: "bundle",
}
"""What an item's error is called, by what ended its conversation; anything else of this floor is `engine`, and a provider's failure says its own kind."""


@dataclass(slots=True)
class _Outcome:
    """How a conversation ended, besides what was said. `is_again` says that others were begun for the item before, of whose cost nothing is known."""

    transcript: Transcript = field(default_factory=Transcript)
    checks: list[CheckResult] = field(default_factory=list)
    error: ItemError | None = None
    retryable: bool = False
    retry_after_s: float | None = None
    system: Message | None = None
    unheld: int = 0
    hearing: Hearing | None = None
    is_again: bool = False

    def fail(self, kind: str, error: Exception) -> None:
        hint = getattr(error, "hint", "")
        untold = self.transcript.ledger.spending.attempts
        self.error = ItemError(kind, (str(error) or type(error).__name__) + (f"; {hint}" if hint else ""), untold)

    def end(self, error: Exception) -> None:
        """Keep what ended the conversation before its time, and whether another attempt may come further."""
        if isinstance(error, ProviderError):
            self.transcript.ledger.fail(error)
            self.fail(f"provider.{error.kind}", error)
            self.retry_after_s = error.retry_after_s
        else:
            self.fail(next((kind for known, kind in _KINDS.items() if isinstance(error, known)), "engine"), error)
        self.retryable = getattr(error, "transient", False)

    @property
    def verdict(self) -> Verdict:
        """Return error when the conversation or, with no check failed, a check could not be run to its end. Session evals decide nothing."""
        if self.error is not None:
            return Verdict.ERROR
        failed = [check for check in self.checks if not check.passed and check.scope is not Scope.SESSION]
        if not failed:
            return Verdict.PASS
        return Verdict.ERROR if all(check.error for check in failed) else Verdict.FAIL

    def cause(self) -> ItemError | None:
        """Return why the verdict is error: what ended the conversation, else the first check that could not be evaluated; None for other verdicts."""
        if self.error is not None or self.verdict is not Verdict.ERROR:
            return self.error
        broken = next(check for check in self.checks if check.error and check.scope is not Scope.SESSION)
        return ItemError("check", f"cannot evaluate check '{broken.type}': {broken.error}")

    def result_fields(self) -> dict[str, Any]:
        """Return what an `ItemResult` says of the conversation itself."""
        transcript = self.transcript
        spoken = [self.system, *transcript.messages] if self.system is not None else transcript.messages
        return {
            "error": self.cause(),
            "checks": self.checks,
            "turns": transcript.turns,
            "unheld_turns": self.unheld,
            "messages": [message_json(message) for message in spoken],
            "usage": transcript.usage,
            "cost_usd": transcript.ledger.spending.cost_usd,
            "cost_is_partial": self.is_again or any(ledger.cost_is_partial for ledger in self._ledgers()),
            "selfplay": transcript.selfplay.spending,
            "provider_latency_ms": transcript.provider_latency_ms,
            "ttft_ms": transcript.ttft_ms,
            **self._asked(),
        }

    def _ledgers(self) -> tuple[Ledger, ...]:
        own = (self.transcript.ledger, self.transcript.selfplay)
        return own if self.hearing is None else (*own, self.hearing.ledger)

    def _asked(self) -> dict[str, Any]:
        """Return what an `ItemResult` says of judges, and whether another attempt may end better: also when it is a judge that was out."""
        hearing = self.hearing
        if hearing is None:
            return {"retryable": self.retryable, "retry_after_s": self.retry_after_s}
        lost = hearing.transient and self.verdict is Verdict.ERROR
        return {
            "judges": hearing.ledger.spending,
            "retryable": self.retryable or lost,
            "retry_after_s": hearing.retry_after_s if lost and self.retry_after_s is None else self.retry_after_s,
        }


class ItemRunner:
    """Runs the items of one plan against one bundle.

    Raises (when built):
        BundleInvalid: a provider's response file cannot be read.
        FeatureNotSupported: a provider's type is not built.
        CredentialMissing: a provider's key is not where it should be.
    """

    def __init__(self, bundle: Bundle, plan: Plan, clock: Clock, connections: Connections = NO_CONNECTIONS) -> None:
        self._bundle = bundle = with_registry_tools(bundle, plan.tools)
        self._clock = clock
        self._providers = ProviderSet(bundle, plan, clock, connections)
        self._plan = plan
        self._models_differ = any(prompt.model_overrides for prompt in bundle.prompts.values())
        self._scripts: dict[tuple[str, str, bool, str], Script] = {}
        self._judging: Bench | None = None
        self._environment = connections.environment
        self._reaches = reaches_outside(bundle)
        self._reached: Outside | None = None
        self._agents = any(_is_agent(spec) for spec in (*plan.providers.values(), *plan.serving.values()))

    async def run(self, item: Item, *, attempt: int = 1) -> ItemResult:
        """Hold the conversation of `item` and return its result.

        Never raises for what the item does: what fails is a result of verdict error, with the transcript up to there. Cancelling passes through
        and leaves nothing behind.
        """
        started_at, started = self._clock.now(), self._clock.monotonic()
        outcome = _Outcome(is_again=attempt > 1)
        try:
            await self._hold(item, outcome)
        except EngineError as error:
            outcome.end(error)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not take the worker's other items with it
            _log_fault(item)
            outcome.fail("internal", error)
        return ItemResult(
            item=item,
            verdict=outcome.verdict,
            started_at=started_at,
            ended_at=self._clock.now(),
            attempt=attempt,
            duration_ms=(self._clock.monotonic() - started) * 1000,
            labels=scenario.labels if (scenario := self._bundle.scenarios.get(item.scenario)) is not None else NOTHING,
            **outcome.result_fields(),
        )

    @property
    def troubles(self) -> Mapping[str, str]:
        """Return why items wait for somebody to be back: providers by name, registries' tools by endpoint."""
        return self._providers.troubles if self._reached is None else {**self._providers.troubles, **self._reached.troubles}

    async def close(self) -> None:
        """Free what providers hold. Idempotent."""
        await self._providers.close()
        if self._reached is not None:
            await self._reached.close()

    @asynccontextmanager
    async def begin(self, item: Item, transcript: Transcript, hearing: Hearing) -> AsyncIterator[Session]:
        """Begin the conversation of `item`; what it opens outside is closed when the block ends.

        Raises:
            EngineError: it cannot be begun, or what it opened broke.
        """
        told = not _is_agent(self._plan.providers.get(item.provider))
        scenario = self._bundle.scenarios.get(item.scenario)
        if scenario is None or not (self._reaches or self._agents):
            yield self._session(item, self._bundle, transcript, hearing)
            return
        from engine.tools.episode import begin_episode  # noqa: PLC0415 - only conversations that connect to something pay for it

        bundle = await self._outside().complete(scenario) if self._reaches and told else self._bundle
        async with begin_episode(self._outside()):
            yield self._session(item, bundle, transcript, hearing)

    def hearing(self) -> Hearing:
        """Return who answers the questions of one conversation."""
        return Hearing(self._bench)

    async def _hold(self, item: Item, outcome: _Outcome) -> None:
        hearing = outcome.hearing = self.hearing()
        if item.scenario not in self._bundle.scenarios and item.scenario in self._bundle.evals:
            from engine.conversation.replaying import Rehearsal  # noqa: PLC0415 - only bundles with saved conversations pay for it

            rehearsal = Rehearsal(self._bundle, self._bundle.evals[item.scenario], item)
            outcome.system = rehearsal.system
            await rehearsal.hold(outcome.transcript, outcome.checks, hearing)
            return
        async with self.begin(item, outcome.transcript, hearing) as session:
            outcome.system = session.begin()
            outcome.unheld = await Holder(session, item, outcome.checks).hold()

    def _session(self, item: Item, bundle: Bundle, transcript: Transcript, hearing: Hearing) -> Session:
        provider, sampling = self._providers.get(item.provider)
        return Session(self._script(item, bundle), Line(provider, sampling, self._clock, hearing), transcript, self._providers, item.id)

    def _bench(self) -> "Bench":
        if self._judging is None:
            from engine.judging.bench import Bench  # noqa: PLC0415 - only conversations whose checks ask somebody pay for it

            self._judging = Bench(self._bundle, self._providers, self._clock, self._outside)
        return self._judging

    def _outside(self) -> "Outside":
        if self._reached is None:
            from engine.providers.retry import patience_of  # noqa: PLC0415 - as above
            from engine.tools.environment import Environment  # noqa: PLC0415 - as above
            from engine.tools.outside import Outside, Surroundings  # noqa: PLC0415 - as above

            given = Surroundings(self._plan.permissions, Environment(self._environment), patience_of(self._plan.item_timeout_s))
            self._reached = Outside(self._bundle, given, self._clock)
        return self._reached

    def _script(self, item: Item, bundle: Bundle) -> Script:
        scenario = bundle.scenarios.get(item.scenario)
        if scenario is None:
            raise BundleInvalid(f"cannot run scenario '{item.scenario}': the bundle has no such scenario", hint="the plan belongs to another commit")
        spec = self._plan.providers[item.provider]
        scenario = within_window(scenario, spec)
        model = str(spec.get("model") or "") if self._models_differ or scenario.context_policy is not None else ""
        key = (item.scenario, model, _is_agent(spec), item.provider if spec.get("context_window") else "")
        script = self._scripts.get(key)
        if script is None:
            script = self._scripts[key] = compile_script(bundle, scenario, model, bare=_is_agent(spec))
        return script


def _is_agent(spec: Mapping[str, Any] | None) -> bool:
    return spec is not None and spec.get("type") == "agent"


def _log_fault(item: Item) -> None:
    import structlog  # noqa: PLC0415 - only a fault of ours needs it, and starting must stay fast

    structlog.get_logger().exception("item failed by an internal fault", item=item.id)
