"""Bundles written to disk for one test, and conversations held with them."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.bundle.loader import load_bundle
from engine.bundle.model import Bundle
from engine.checks.evidence import Outcome
from engine.checks.questions import Answers, Question
from engine.conversation import ItemRunner
from engine.items import ItemResult
from engine.plan import PlanRequest, make_plan
from foundation.clock import SystemClock

Hold = Callable[..., Awaitable[ItemResult]]
Write = Callable[..., Bundle]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a bundle of one scenario `s` and load it.

    `turns` are the scenario's; `replies` the mock's, by number; `scenario`, `prompt`, `provider` and `arena` add to the specs of these files; `tools`
    are specs by name, all of them allowed; `mock` adds keys to the response file.
    """

    def write_bundle(
        turns: list[dict[str, Any]], replies: dict[int, Any], *, tools: dict[str, dict[str, Any]] | None = None, **more: dict[str, Any]
    ) -> Bundle:
        tools = tools or {}
        specs: dict[str, dict[str, Any]] = {
            "scenario": {"task_type": "t", "description": "d", "turns": turns},
            "prompt": {"task_type": "t", "version": "v1", "description": "d", "system_template": "Be kind.", "allowed_tools": list(tools)},
            "provider": {"type": "mock", "model": "x", "additional_config": {"mock_config": "mock.yaml"}},
        }
        names = {"scenario": "s", "prompt": "p", "provider": "m"}
        for kind, spec in specs.items():
            _manifest(tmp_path / f"{kind}.yaml", "PromptConfig" if kind == "prompt" else kind.title(), names[kind], spec | more.get(kind, {}))
        for name, spec in tools.items():
            defaults: dict[str, Any] = {"description": "d", "input_schema": {"type": "object"}, "output_schema": {}, "mode": "mock"}
            _manifest(tmp_path / f"{name}.tool.yaml", "Tool", name, defaults | spec)
        (tmp_path / "mock.yaml").write_text(yaml.safe_dump({"scenarios": {"s": {"turns": replies}}} | more.get("mock", {})))
        arena = {
            "prompt_configs": [{"id": "p", "file": "prompt.yaml"}],
            "providers": [{"file": "provider.yaml"}],
            "scenarios": [{"file": "scenario.yaml"}],
            "tools": [{"file": f"{name}.tool.yaml"} for name in tools],
            "defaults": {},
        }
        _manifest(tmp_path / "config.arena.yaml", "Arena", "a", arena | more.get("arena", {}))
        return load_bundle(tmp_path)

    return write_bundle


@pytest.fixture
def hold(write: Write) -> Hold:
    """Write a bundle as `write` does, and run its first item."""

    async def run(turns: list[dict[str, Any]], replies: dict[int, Any], **more: Any) -> ItemResult:
        bundle = write(turns, replies, **more)
        plan = make_plan(bundle, PlanRequest())
        runner = ItemRunner(bundle, plan, SystemClock())
        try:
            return await runner.run(plan.items[0])
        finally:
            await runner.close()

    return run


class Nobody:
    """Answers no question: for conversations whose checks have none."""

    async def answer(self, question: Question) -> Outcome:
        """Raise."""
        raise ValueError(f"nobody answers {question}")


@pytest.fixture
def nobody() -> Answers:
    """Return somebody to ask, who never answers."""
    return Nobody()


def _manifest(path: Path, kind: str, name: str, spec: dict[str, Any]) -> None:
    content = {"apiVersion": "promptkit.altairalabs.ai/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    path.write_text(yaml.safe_dump(content, sort_keys=False))
