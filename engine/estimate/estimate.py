"""The estimate of a plan: every conversation's requests, priced, and how long the limits make them take.

Owns the sums. Must not know how a conversation goes (conversation.py), nor how an estimate is shown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.bundle.model import Bundle
from engine.estimate.conversation import Asked, Load, Loads, Walk, conversations_of, spec_of
from engine.estimate.habits import HABITS, METHOD, Habit
from engine.items import Usage
from engine.plan import Plan
from engine.providers.limits import limits_of
from engine.providers.prices import Prices

_UNPAID = ("mock", "replay")


@dataclass(frozen=True, slots=True)
class Span:
    """A figure at the least, likely, and at the most."""

    least: float
    likely: float
    most: float

    def to_json(self) -> dict[str, float]:
        """Return the three figures, USD and seconds to six places."""
        return {name: round(getattr(self, name), 6) for name in ("least", "likely", "most")}


@dataclass(frozen=True, slots=True)
class Row:
    """What one provider is asked for one purpose. `cost_usd` is None when its price is not known; of mocks and recordings it is 0."""

    asked: Asked
    requests: Span
    input_tokens: Span
    output_tokens: Span
    cost_usd: Span | None


@dataclass(frozen=True, slots=True)
class Estimated:
    """An estimate. `cost_usd` is the sum of what has a price; `unpriced` are the models that have none. `seconds` is at `concurrency` items in flight."""

    items: int
    concurrency: int
    latency_s: float
    rows: Sequence[Row]
    cost_usd: Span
    unpriced: Sequence[str]
    seconds: Span
    method: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as a JSON object."""
        return {
            "items": self.items,
            "concurrency": self.concurrency,
            "latencySeconds": self.latency_s,
            "requests": self.total(lambda row: row.requests).to_json(),
            "inputTokens": self.total(lambda row: row.input_tokens).to_json(),
            "outputTokens": self.total(lambda row: row.output_tokens).to_json(),
            "costUsd": self.cost_usd.to_json(),
            "unpricedModels": list(self.unpriced),
            "seconds": self.seconds.to_json(),
            "rows": [_row_json(row) for row in self.rows],
            "method": list(self.method),
        }

    def total(self, figure: Callable[[Row], Span]) -> Span:
        """Return the sum of a figure over all rows."""
        spans = [figure(row) for row in self.rows]
        return Span(*(sum(getattr(span, name) for span in spans) for name in ("least", "likely", "most")))


def estimate(bundle: Bundle, plan: Plan, *, latency_s: float) -> Estimated:
    """Estimate a plan; `latency_s` is what one request takes.

    Raises:
        BundleInvalid: a scenario cannot be held.
    """
    prices = Prices(plan.prices)
    loads = [_loads(bundle, plan, habit, prices) for habit in HABITS]
    rows, unpriced = [], []
    for asked in sorted({asked for each in loads for asked in each}, key=lambda asked: (asked.purpose != "subject", asked.purpose, asked)):
        triple = [each.get(asked, Load()) for each in loads]
        cost = _cost(spec_of(plan, asked), triple, prices)
        if cost is None:
            unpriced.append(asked.model or asked.provider)
        requests, inputs, outputs = (Span(*(getattr(load, name) for load in triple)) for name in ("requests", "input_tokens", "output_tokens"))
        rows.append(Row(asked, requests, inputs, outputs, cost))
    known = [row.cost_usd for row in rows if row.cost_usd is not None]
    return Estimated(
        items=len(plan.items),
        concurrency=plan.concurrency,
        latency_s=latency_s,
        rows=rows,
        cost_usd=Span(*(sum(getattr(cost, name) for cost in known) for name in ("least", "likely", "most"))),
        unpriced=tuple(dict.fromkeys(unpriced)),
        seconds=Span(*(_seconds(plan, each, latency_s) for each in loads)),
        method=METHOD,
    )


def _loads(bundle: Bundle, plan: Plan, habit: Habit, prices: Prices) -> Loads:
    """Return what everybody is asked in the whole plan."""
    total: Loads = {}
    for (subject, provider), times in conversations_of(plan).items():
        walk = Walk(bundle, plan, habit, prices)
        loads = walk.hold(bundle.scenarios[subject], provider) if subject in bundle.scenarios else walk.replay(bundle.evals[subject])
        for asked, load in loads.items():
            total[asked] = total.get(asked, Load()).plus(load, times)
    return total


def _cost(spec: Mapping[str, Any], loads: Sequence[Load], prices: Prices) -> Span | None:
    """Price what is asked: by the average request, so that a long prompt's price counts only where prompts are long."""
    if spec.get("type") in _UNPAID:
        return Span(0.0, 0.0, 0.0)
    price = prices.of_spec(spec)
    if price is None:
        return None

    def cost(load: Load) -> float:
        is_long = price.above is not None and load.input_tokens > price.above_tokens * load.requests
        flat = price.above if price.above is not None and is_long else replace(price, above=None)
        return flat.cost_usd(Usage(load.input_tokens, load.output_tokens))

    return Span(*(cost(load) for load in loads))


def _seconds(plan: Plan, loads: Loads, latency_s: float) -> float:
    """Return how long a plan takes: all requests side by side in the items in flight, or as long as the tightest limit of a provider makes it."""
    by_provider: dict[str, int] = {}
    for asked, load in loads.items():
        if spec_of(plan, asked).get("type") not in _UNPAID:
            by_provider[asked.provider] = by_provider.get(asked.provider, 0) + load.requests
    in_flight = min(plan.concurrency, len(plan.items)) or 1
    spans = [sum(by_provider.values()) * latency_s / in_flight]
    for provider, requests in by_provider.items():
        limits = limits_of(plan.providers.get(provider) or plan.serving.get(provider) or {})
        if limits.rate_per_s:
            spans.append(max(0, requests - limits.burst) / limits.rate_per_s)
        if limits.concurrency:
            spans.append(requests * latency_s / min(limits.concurrency, in_flight))
    return max(spans)


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "provider": row.asked.provider,
        "model": row.asked.model,
        "purpose": row.asked.purpose,
        "requests": row.requests.to_json(),
        "inputTokens": row.input_tokens.to_json(),
        "outputTokens": row.output_tokens.to_json(),
        "costUsd": None if row.cost_usd is None else row.cost_usd.to_json(),
    }
