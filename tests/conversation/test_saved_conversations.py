"""Evals of saved conversations: each turn is checked as it was said, nobody is asked, and what fails decides."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.bundle.loader import load_bundle
from engine.bundle.supported import check_supported
from engine.conversation import ItemRunner
from engine.errors import BundleInvalid, NoScenarios
from engine.items import ItemResult, Usage, Verdict
from engine.plan import Plan, PlanRequest, make_plan
from foundation.clock import SystemClock

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "one"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "1", "name": "look", "args": {"q": 1}}],
        "cost_info": {"input_tokens": 9, "total_cost_usd": 0.5},
    },
    {"role": "tool", "tool_result": {"id": "1", "name": "look"}, "content": "found"},
    {"role": "assistant", "content": "alpha"},
    {"role": "user", "content": "two"},
    {"role": "assistant", "content": "beta"},
]


def contains(*patterns: str) -> dict[str, Any]:
    """Return a check of the last reply."""
    return {"type": "contains", "params": {"patterns": list(patterns)}}


def write(root: Path, turns: list[dict[str, Any]], conversation: list[dict[str, Any]], **more: Any) -> Plan:
    """Write a bundle of one eval, and plan it."""
    spec = {
        "description": "d",
        "recording": {"path": "saved.arena.json"},
        "turns": [{"all_turns": {"assertions": turns}}],
        "conversation_assertions": conversation,
    }
    files = {
        "config.arena.yaml": {
            "kind": "Arena",
            "metadata": {"name": "a"},
            "spec": {"providers": [], "evals": [{"file": "saved.yaml"}], "defaults": {}, **more.pop("arena", {})},
        },
        "saved.yaml": {"kind": "Eval", "metadata": {"name": "saved"}, "spec": spec | more},
    }
    for name, content in files.items():
        (root / name).write_text(yaml.safe_dump(content))
    return make_plan(load_bundle(root), PlanRequest())


def record(root: Path, name: str = "saved.arena.json", messages: list[dict[str, Any]] = MESSAGES) -> None:
    """Write a recording."""
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(json.dumps({"Messages": messages}))


async def results(root: Path, plan: Plan) -> list[ItemResult]:
    """Run a plan's items."""
    bundle = load_bundle(root)
    check_supported(bundle, plan)
    runner = ItemRunner(bundle, plan, SystemClock())
    return [await runner.run(item) for item in plan.items]


async def test_each_turn_is_checked_as_it_was_said(tmp_path: Path) -> None:
    """Not the last message again and again (promptkit-format.md 11, no. 29); a turn ends when the user speaks again, whatever tools it took."""
    record(tmp_path)
    (result,) = await results(tmp_path, write(tmp_path, [contains("alpha")], [contains("beta")]))
    assert [(check.scope.value, check.turn, check.passed) for check in result.checks] == [
        ("turn", 0, True),
        ("turn", 1, False),
        ("conversation", None, True),
    ]
    assert result.verdict is Verdict.FAIL


async def test_a_saved_conversation_passes(tmp_path: Path) -> None:
    """With tools and their results as they were."""
    record(tmp_path)
    tools = {"type": "tools_called", "params": {"tools": ["look"]}}
    (result,) = await results(tmp_path, write(tmp_path, [contains("a")], [tools]))
    assert (result.verdict, result.item.id, result.turns) == (Verdict.PASS, "saved/eval/1", 2)
    assert [message["role"] for message in result.messages] == [message["role"] for message in MESSAGES]


async def test_what_was_spent_then_is_not_spent_now(tmp_path: Path) -> None:
    """A check sees what the conversation had cost; the item costs nothing."""
    record(tmp_path)
    budget = {"type": "cost_budget", "params": {"max_cost_usd": 0.4}}
    (result,) = await results(tmp_path, write(tmp_path, [], [budget]))
    assert (result.verdict, result.usage, result.cost_usd) == (Verdict.FAIL, Usage(), None)


async def test_a_glob_is_an_item_a_recording(tmp_path: Path) -> None:
    """Each file is a conversation of its own, in the order of their names."""
    for name in ("b", "a"):
        record(tmp_path, f"saved/{name}.arena.json")
    plan = write(tmp_path, [contains("a")], [], recording={"path": "saved/*.arena.json"})
    assert [item.id for item in plan.items] == ["saved/eval/1/recording=saved%2Fa.arena.json", "saved/eval/1/recording=saved%2Fb.arena.json"]
    assert [result.verdict for result in await results(tmp_path, plan)] == [Verdict.PASS, Verdict.PASS]
    assert Plan.from_bytes(plan.to_bytes()).items == plan.items


def test_a_glob_without_a_file_is_refused(tmp_path: Path) -> None:
    """An eval that would check nothing is no eval."""
    with pytest.raises(BundleInvalid, match="no file matches 'saved/"):
        write(tmp_path, [], [contains("a")], recording={"path": "saved/*.arena.json"})


async def test_a_recording_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Never a pass, and it names the file."""
    (result,) = await results(tmp_path, write(tmp_path, [], [contains("a")]))
    assert result.verdict is Verdict.ERROR
    assert result.error is not None
    assert "saved.arena.json" in result.error.message


SCENARIO = {
    "kind": "Scenario",
    "metadata": {"name": "talk"},
    "spec": {"description": "d", "task_type": "t", "turns": [{"role": "user", "content": "hi"}]},
}
PROMPT = {"kind": "PromptConfig", "metadata": {"name": "p"}, "spec": {"task_type": "t", "version": "v1", "description": "d", "system_template": "x"}}
PROVIDER = {"kind": "Provider", "metadata": {"name": "m"}, "spec": {"type": "mock"}}


def test_evals_beside_scenarios_run_when_they_are_named(tmp_path: Path) -> None:
    """Scenarios come first (promptkit-format.md 3.8); an eval is chosen by its name, and an unknown name by nothing."""
    for name, content in (("talk", SCENARIO), ("p", PROMPT), ("m", PROVIDER)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    arena = {"scenarios": [{"file": "talk.yaml"}], "prompt_configs": [{"id": "p", "file": "p.yaml"}], "providers": [{"file": "m.yaml"}]}
    assert [item.id for item in write(tmp_path, [], [contains("a")], arena=arena).items] == ["talk/m/1"]
    bundle = load_bundle(tmp_path)
    assert [item.id for item in make_plan(bundle, PlanRequest(only_scenarios=("saved",))).items] == ["saved/eval/1"]
    assert [item.id for item in make_plan(bundle, PlanRequest(only_scenarios=("saved", "talk"))).items] == ["saved/eval/1", "talk/m/1"]
    with pytest.raises(NoScenarios, match="cannot find scenario 'svaed'"):
        make_plan(bundle, PlanRequest(only_scenarios=("svaed",)))


def test_filters_choose_among_evals(tmp_path: Path) -> None:
    """Include and exclude patterns mean evals where there are no scenarios."""
    write(tmp_path, [], [contains("a")])
    bundle = load_bundle(tmp_path)
    assert [item.id for item in make_plan(bundle, PlanRequest(include=("sav*",))).items] == ["saved/eval/1"]
    with pytest.raises(NoScenarios, match="leave none of the 1"):
        make_plan(bundle, PlanRequest(exclude=("saved.yaml",)))
