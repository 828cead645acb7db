"""Checks of what a conversation costs: time of the last reply, tokens and money of the whole, as the provider reported them."""

from engine.checks.evidence import Evaluate, Evidence, Outcome, verdict
from engine.checks.params import Param, Values, count, number
from engine.checks.registry import CheckType


def _latency(values: Values) -> Evaluate:
    most: float = values["max_ms"]

    def evaluate(evidence: Evidence) -> Outcome:
        latency = evidence.latency_ms
        score = 1.0 if latency <= most else most / latency
        return Outcome(score, f"{latency:.0f} ms, at most {most:g} ms allowed", {"latency_ms": round(latency, 3)})

    return evaluate


def _cost(values: Values) -> Evaluate:
    limits = {key: values[key] for key in _MEASURES if values[key] is not None}
    if not limits:
        raise ValueError(f"one of {', '.join(repr(key) for key in _MEASURES)} must be given")

    def evaluate(evidence: Evidence) -> Outcome:
        spent = {
            "max_cost_usd": evidence.cost_usd or 0.0,
            "max_input_tokens": evidence.usage.input_tokens,
            "max_output_tokens": evidence.usage.output_tokens,
            "max_total_tokens": evidence.usage.input_tokens + evidence.usage.output_tokens,
        }
        over = [f"{_MEASURES[key]} {spent[key]:.10g} exceeds {limit:.10g}" for key, limit in limits.items() if spent[key] > limit]
        if not over and "max_cost_usd" in limits and evidence.cost_is_partial:
            raise ValueError("the cost is not known: a call of it has no price or no usage")
        value = {"cost_usd": evidence.cost_usd, "input_tokens": evidence.usage.input_tokens, "output_tokens": evidence.usage.output_tokens}
        return verdict(holds=not over, explanation="; ".join(over) or "within the budget", value=value)

    return evaluate


_MEASURES = {"max_cost_usd": "cost in USD", "max_input_tokens": "input tokens", "max_output_tokens": "output tokens", "max_total_tokens": "tokens"}

CHECKS = (
    CheckType("latency_budget", (Param("max_ms", number, required=True),), _latency),
    CheckType(
        "cost_budget",
        (Param("max_cost_usd", number), Param("max_input_tokens", count), Param("max_output_tokens", count), Param("max_total_tokens", count)),
        _cost,
    ),
)
