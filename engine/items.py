"""An item, its result and its accounting record: the values that plan, queue, worker and results share.

An item is one conversation to hold: scenario x provider x trial (x perturbation). Its id is equal in every run, so runs can be compared.
An `ItemResult` is one line of results.jsonl, transcript included. A `Record` is what accounting needs of it, at most 4 KiB; no transcript.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, NewType

RunUID = NewType("RunUID", str)
"""The uid of an ArenaRun object: queue keys and outputs are scoped by it."""

MAX_RECORD_BYTES = 4096

EVAL_PROVIDER: Final = "eval"
"""What stands for the provider in items of an eval: nobody is asked (promptkit-format.md 3.8)."""


class Verdict(StrEnum):
    """What became of an item (resources.md, "Words of a verdict")."""

    PASS = "pass"  # noqa: S105 - a verdict, not a credential
    FAIL = "fail"
    ERROR = "error"
    SKIPPED = "skipped"


class Scope(StrEnum):
    """Where a check is evaluated."""

    TURN = "turn"
    CONVERSATION = "conversation"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Item:
    """One conversation to hold.

    `index` is its place in the plan, from 0; `trial` counts from 1; `perturbation` names the variant (`key=value,…`), "" without one.
    """

    index: int
    scenario: str
    provider: str
    trial: int
    perturbation: str = ""
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> str:
        """Return `scenario/provider/trial[/perturbation]`."""
        tail = f"/{self.perturbation}" if self.perturbation else ""
        return f"{self.scenario}/{self.provider}/{self.trial}{tail}"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of an item's provider calls."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


class CheckResult(NamedTuple):
    """The outcome of one check.

    `turn` is the 0-based index of the scripted turn, None for the conversation's checks; `score` is 0 to 1, None when the check has none;
    `error` is set when the check itself could not be evaluated (then `passed` is False); a skipped check has `passed` True. `tolerance` is the share of
    trials in which it must pass for its run to pass; None when it must in each.
    """

    scope: Scope
    turn: int | None
    type: str
    passed: bool
    name: str = ""
    score: float | None = None
    value: Any = None
    message: str = ""
    explanation: str = ""
    error: str = ""
    skipped: bool = False
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class ItemError:
    """Why an item could not be run to its end. `kind` is a stable word, e.g. `provider.timeout`, `tool_loop`, `worker_lost`, `item_timeout`.

    `attempts` are the requests before the one that failed for good, and others that no message tells of: plain JSON objects with the keys kind, message,
    latencyMs and waitedMs. A record has no room for them.
    """

    kind: str
    message: str
    attempts: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Spending:
    """What calls of models used and cost. `cost_usd` is None when nothing that was called has a price.

    `cost_is_partial` says that something was spent, or may have been, that `cost_usd` lacks. `attempts` are requests that were made again and that no
    message tells of, as in `ItemError`.
    """

    usage: Usage = Usage()
    cost_usd: float | None = None
    cost_is_partial: bool = False
    attempts: tuple[Mapping[str, Any], ...] = ()


@dataclass(slots=True)
class ItemResult:
    """One line of results.jsonl (keys and order: resources.md, "Result files").

    `messages` are plain JSON objects with the keys role, content, parts, toolCalls, toolResult, latencyMs, usage, costUsd, validations, meta
    (absent keys are left out). `cost_usd` is None when nothing that was called has a price. `provider_latency_ms` sums the assistant's provider calls.
    `judges` is what judges and classifiers spent on this item's checks and guardrails, and no part of `usage` and `cost_usd`; nor is `selfplay`, a
    simulated user's. `spent_usd` is what all of them cost, and `cost_is_partial` says that it is the least that was spent, whoever spent it.
    `unheld_turns` are entries of the script that were never said, because a check of an earlier one failed.
    `labels` are the scenario's (metadata.labels), for whoever groups results.
    `retryable` is never written: it tells the worker whether another attempt may end better, after `retry_after_s` at the earliest.
    """

    item: Item
    verdict: Verdict
    started_at: datetime
    ended_at: datetime
    attempt: int = 1
    error: ItemError | None = None
    checks: list[CheckResult] = field(default_factory=list)
    turns: int = 0
    unheld_turns: int = 0
    messages: list[dict[str, Any]] = field(default_factory=list)
    usage: Usage = Usage()
    cost_usd: float | None = None
    cost_is_partial: bool = False
    judges: Spending = Spending()
    selfplay: Spending = Spending()
    labels: Mapping[str, str] = field(default_factory=dict)
    provider_latency_ms: float = 0.0
    ttft_ms: float | None = None
    duration_ms: float = 0.0
    digest: str = ""
    reused: bool = False
    retryable: bool = False
    retry_after_s: float | None = None

    @property
    def spent_usd(self) -> float | None:
        """Return what the item cost, whoever spent it; None when nothing that was called has a price."""
        known = [cost for cost in (self.cost_usd, self.selfplay.cost_usd, self.judges.cost_usd) if cost is not None]
        return round(sum(known), 10) if known else None
