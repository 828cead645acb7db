"""What a job's provider can be shown of a conversation, beside what the scenario allows."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.bundle.contexts import ContextPolicy
from engine.bundle.model import Bundle, Scenario
from engine.conversation import ItemRunner
from engine.conversation.provider_window import within_window
from engine.job_providers import ResolvedProvider
from engine.plan import PlanRequest, make_plan
from foundation.clock import FakeClock


@pytest.mark.parametrize(
    ("own", "spec", "expected"),
    [
        pytest.param(None, {}, None, id="no window, no policy"),
        pytest.param(None, {"context_window": 8000}, ContextPolicy(8000, 4000, "oldest"), id="a window: room for an answer, oldest out"),
        pytest.param(
            None,
            {"context_window": 8000, "truncation_strategy": "fail", "defaults": {"max_tokens": 500}},
            ContextPolicy(8000, 500, "fail"),
            id="its own strategy, and room for its answers",
        ),
        pytest.param(ContextPolicy(100, 10), {"context_window": 8000}, ContextPolicy(100, 10), id="a scenario that allows less"),
        pytest.param(
            ContextPolicy(9000, 10, "summarize"), {"context_window": 8000}, ContextPolicy(8000, 10, "summarize"), id="a scenario that allows more"
        ),
        pytest.param(ContextPolicy(None, 10, "fail"), {"context_window": 8000}, ContextPolicy(8000, 10, "fail"), id="a policy without a limit"),
    ],
)
def test_the_smaller_of_both_counts(own: ContextPolicy | None, spec: dict[str, Any], expected: ContextPolicy | None) -> None:
    """A model is never shown more than it reads, nor more than the scenario allows; how it is cut is the scenario's word first."""
    found = within_window(Scenario("s", "s.yaml", context_policy=own), spec).context_policy
    assert found == expected


@pytest.mark.parametrize(("window", "cause"), [pytest.param(0, None, id="without a window"), pytest.param(300, "context", id="with a small one")])
async def test_a_window_reaches_the_conversation(write: Callable[..., Bundle], window: int, cause: str | None) -> None:
    """A conversation that grows beyond its provider's window ends as the provider's spec says."""
    turns = [{"role": "user", "content": "one two three four five six seven eight nine ten " * 12} for _ in range(3)]
    bundle = write(turns, {1: "a", 2: "b", 3: "c"})
    spec = {"type": "mock", "context_window": window, "truncation_strategy": "fail", "defaults": {"max_tokens": 10}}
    plan = make_plan(bundle, PlanRequest(providers={"default": (ResolvedProvider("m", spec),)}))
    runner = ItemRunner(bundle, plan, FakeClock())
    result = await runner.run(plan.items[0])
    await runner.close()
    assert (result.error.kind if result.error else None) == cause
