"""How much of a conversation a job's provider can be shown: its context window bounds what the scenario allows.

Source: resources.md, "Provider": `contextWindow`, `truncationStrategy`. Must not know how a context is cut.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine.bundle.contexts import ContextPolicy
from engine.bundle.model import Scenario
from engine.providers.port import DEFAULT_MAX_TOKENS


def within_window(scenario: Scenario, spec: Mapping[str, Any]) -> Scenario:
    """Return the scenario with a context that fits the provider: its own policy where that asks for less, else as the provider's spec says."""
    window, own = int(spec.get("context_window") or 0), scenario.context_policy
    if not window or (own is not None and own.token_budget and own.token_budget <= window):
        return scenario
    if own is not None:
        return replace(scenario, context_policy=replace(own, token_budget=window))
    answer = int((spec.get("defaults") or {}).get("max_tokens") or DEFAULT_MAX_TOKENS)
    strategy = str(spec.get("truncation_strategy") or "oldest")
    return replace(scenario, context_policy=ContextPolicy(window, min(answer, window // 2), strategy, location=scenario.location))
