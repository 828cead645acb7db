"""Compiled packs: their prompts, tools and workflows are the arena's, and what both have is a problem."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.bundle import check_supported, load_bundle
from engine.bundle.model import Bundle
from engine.conversation import ItemRunner
from engine.errors import BundleInvalid
from engine.items import Verdict
from engine.plan import PlanRequest, make_plan
from foundation.clock import SystemClock

Write = Callable[[Mapping[str, str | bytes | None]], Path]

ARENA = "kind: Arena\nmetadata: {name: small}\nspec:\n  providers: [{file: providers/mock.yaml}]\n  scenarios: [{file: scenarios/hello.yaml}]\n  pack_file: support.pack.json\n"
PROMPT: dict[str, Any] = {"id": "assistant", "name": "Assistant", "version": "v1", "system_template": "Be {{tone}}. {{rules}}"}
PACK: dict[str, Any] = {
    "$schema": "https://promptpack.org/schema/latest/promptpack.schema.json",
    "id": "support",
    "name": "Support",
    "version": "1.0.0",
    "template_engine": {"version": "v1", "syntax": "{{variable}}"},
    "fragments": {"rules": "Never lie."},
    "prompts": {
        "assistant": {
            **PROMPT,
            "variables": [{"name": "tone", "required": False, "default": "kind"}],
            "tools": ["look"],
            "validators": [{"type": "banned_words", "enabled": True, "params": {"words": ["no"]}}],
            "parameters": {"temperature": 0.2},
        }
    },
    "tools": {"look": {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}},
    "compilation": {"compiled_with": "packc", "created_at": "2026-01-01T00:00:00Z", "schema": "v1"},
}
PROMPT_FILE = "kind: PromptConfig\nmetadata: {name: other}\nspec: {task_type: assistant, system_template: x}\n"


def packed(write: Write, pack: Mapping[str, Any] = PACK, arena: str = ARENA, files: Mapping[str, str | None] = {}) -> Bundle:
    """Load a bundle whose prompt is in a pack."""
    return load_bundle(write({"config.arena.yaml": arena, "support.pack.json": json.dumps(pack), "prompts/assistant.yaml": None, **files}))


async def test_a_conversation_by_a_packs_prompt(write: Write) -> None:
    """Fragments, variables, tools and guardrails of the pack are those of the conversation."""
    bundle = packed(write)
    plan = make_plan(bundle, PlanRequest())
    check_supported(bundle, plan)
    result = await ItemRunner(bundle, plan, SystemClock()).run(plan.items[0])
    assert result.verdict is Verdict.PASS
    assert result.messages[0]["content"] == "Be kind. Never lie."
    assert result.messages[0]["meta"] == {"availableTools": ["look"]}


def test_the_parts_of_a_pack(write: Write) -> None:
    """A prompt is found by its task_type; a tool has what the pack says of it."""
    bundle = packed(write)
    prompt, tool = bundle.prompts["assistant"], bundle.tools["look"]
    assert (prompt.id, prompt.name, prompt.file, prompt.allowed_tools) == ("assistant", "Assistant", "support.pack.json", ("look",))
    assert [validator.type for validator in prompt.validators] == ["banned_words"]
    assert (tool.description, tool.mode, tool.input_schema["type"]) == ("Looks.", "mock", "object")


def test_the_arenas_tool_stands_for_the_packs(write: Write) -> None:
    """A pack says nothing of what a tool answers; the arena may."""
    arena = ARENA + "  tool_specs: {look: {description: mine, input_schema: {type: object}, mode: mock, mock_result: found}}\n"
    assert packed(write, arena=arena).tools["look"].mock_result == "found"


def test_a_workflow_of_a_pack(write: Write) -> None:
    """It is the arena's, unless that has one of its own."""
    workflow = {"version": 1, "entry": "start", "states": {"start": {"prompt_task": "assistant", "terminal": True}}}
    bundle = packed(
        write,
        PACK | {"workflow": workflow},
        files={"scenarios/hello.yaml": "kind: Scenario\nmetadata: {name: hello}\nspec: {turns: [{role: user, content: hi}]}\n"},
    )
    assert bundle.arena.workflow is not None
    arena = ARENA + f"  workflow: {json.dumps(workflow)}\n"
    with pytest.raises(BundleInvalid, match="the arena has `workflow`, and so has its pack"):
        packed(write, PACK | {"workflow": workflow}, arena)


@pytest.mark.parametrize(
    ("pack", "cause"),
    [
        ({**PACK, "prompts": {"assistant": {"id": "a"}}}, "missing key 'system_template' in a pack's prompt"),
        ({**PACK, "promts": {}}, "unknown key 'promts' in a pack"),
        ({key: value for key, value in PACK.items() if key != "prompts"}, "missing key 'prompts' in a pack"),
        ({**PACK, "prompts": {"other": PROMPT | {"system_template": "x"}}}, "no prompt has the task_type 'assistant'"),
        ({**PACK, "prompts": {"assistant": PROMPT | {"tools": ["absent"], "system_template": "x"}}}, "allows the tool 'absent'"),
        ({**PACK, "fragments": {}}, "'{{rules}}' in the template of prompt 'assistant' has no value"),
    ],
    ids=["a prompt without a template", "a misspelt key", "no prompts", "another task", "a tool that is not there", "a fragment that is not there"],
)
def test_a_pack_is_read_strictly(write: Write, pack: dict[str, Any], cause: str) -> None:
    """As every other file of a bundle."""
    with pytest.raises(BundleInvalid) as caught:
        packed(write, pack)
    assert cause in caught.value.message


def test_a_pack_that_is_not_there(write: Write) -> None:
    """It is named where the arena names it."""
    with pytest.raises(BundleInvalid, match=r"config\.arena\.yaml:6: cannot find 'support\.pack\.json'"):
        packed(write, PACK, ARENA, files={"support.pack.json": None})


def test_a_task_of_both_is_a_problem(write: Write) -> None:
    """Which of two prompts is meant must not depend on the order of reading."""
    arena = ARENA + "  prompt_configs: [{id: other, file: prompts/other.yaml}]\n"
    with pytest.raises(BundleInvalid, match="duplicate task_type 'assistant'"):
        packed(write, arena=arena, files={"prompts/other.yaml": PROMPT_FILE})
