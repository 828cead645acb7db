"""Fragments of prompts, and what a prompt is for one model."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from engine.bundle.loader import read_bundle
from engine.bundle.model import Bundle
from engine.conversation import ItemRunner
from engine.errors import BundleInvalid
from engine.items import ItemResult
from engine.plan import PlanRequest, make_plan
from foundation.clock import SystemClock

Write = Callable[..., Bundle]
Hold = Callable[..., Awaitable[ItemResult]]

TURNS = [{"role": "user", "content": "Hi"}]


def prompt(template: str, **fragments: dict[str, Any]) -> dict[str, Any]:
    """Return a prompt's keys with these fragments."""
    return {"system_template": template, "fragments": [{"name": name, **keys} for name, keys in fragments.items()]}


async def system(hold: Hold, **more: Any) -> str:
    """Return the system prompt of a conversation."""
    return str((await hold(TURNS, {1: "ok"}, **more)).messages[0]["content"])


@pytest.mark.parametrize(
    ("file", "content"),
    [
        pytest.param("tone.md", "Be {{how}}.\n", id="a text file"),
        pytest.param("tone.yaml", "fragment_type: tone\nversion: v1\ncontent: |\n  Be {{how}}.\n", id="a YAML file with content"),
        pytest.param("tone.json", '{"content": "Be {{how}}."}', id="a JSON file with content"),
    ],
)
async def test_a_fragment_is_quoted(hold: Hold, tmp_path: Path, file: str, content: str) -> None:
    """A fragment's text takes the place of its name in the template, and its own placeholders are filled too."""
    (tmp_path / file).write_text(content)
    assert await system(hold, prompt=prompt("A. {{tone}} B.", tone={"path": file}), scenario={"variables": {"how": "kind"}}) == "A. Be kind. B."


async def test_an_optional_fragment_may_be_missing(hold: Hold, write: Write) -> None:
    """A fragment that is not required and has no file is empty, and a warning says so."""
    more = {"prompt": prompt("A.{{tone}}", tone={"path": "none.md"})}
    assert await system(hold, **more) == "A."
    assert any("fragment 'tone' is empty" in warning for warning in write(TURNS, {}, **more).warnings)


@pytest.mark.parametrize(
    ("fragment", "words"),
    [
        pytest.param({"path": "none.md", "required": True}, "cannot find 'none.md'", id="no file"),
        pytest.param({"required": True}, "fragment 'tone' has no file", id="no path"),
        pytest.param({"path": "../tone.md", "required": True}, "the path leaves the bundle", id="outside the bundle"),
        pytest.param({"path": "bad.yaml", "required": True}, "missing key 'content' in a fragment file", id="no content"),
    ],
)
def test_a_required_fragment_must_be_there(write: Write, tmp_path: Path, fragment: dict[str, Any], words: str) -> None:
    """A required fragment that cannot be read is an error of the bundle, never a silent other prompt."""
    (tmp_path / "bad.yaml").write_text("text: x\n")
    with pytest.raises(BundleInvalid, match=words):
        write(TURNS, {}, prompt=prompt("{{tone}}", tone=fragment))


@pytest.mark.parametrize(
    ("override", "text"),
    [
        pytest.param({"system_template": "Other {{n}}."}, "Other 1.", id="another template"),
        pytest.param({"system_template_suffix": "Be short."}, "Base 1.\nBe short.", id="a suffix, on its own line"),
        pytest.param({"system_template": "Other.", "system_template_suffix": "\nEnd."}, "Other.\nEnd.", id="both"),
    ],
)
async def test_a_model_has_its_own_prompt(write: Write, override: dict[str, str], text: str) -> None:
    """A prompt's override is for the model of that name; other models keep the template."""
    bundle = write(
        TURNS,
        {1: "ok"},
        prompt={"system_template": "Base {{n}}.", "model_overrides": {"x": override}},
        arena={"provider_specs": {"other": {"type": "mock", "model": "y"}}},
        scenario={"variables": {"n": "1"}},
    )
    plan = make_plan(bundle, PlanRequest())
    runner = ItemRunner(bundle, plan, SystemClock())
    prompts = {item.provider: (await runner.run(item)).messages[0]["content"] for item in plan.items}
    assert prompts == {"m": text, "other": "Base 1."}


def test_an_override_is_checked_too(write: Write) -> None:
    """A placeholder without a value is an error also where only one model's template has it."""
    with pytest.raises(BundleInvalid, match=r"'\{\{who\}\}' in the template of prompt 'p' for model 'x' has no value"):
        write(TURNS, {}, prompt={"model_overrides": {"x": {"system_template": "{{who}}"}}})


def test_an_override_for_nobody_is_said(write: Write) -> None:
    """An override whose model no provider of the bundle has is a note to its author."""
    bundle = write(TURNS, {}, prompt={"model_overrides": {"z": {"system_template": "Z"}}})
    _, problems = read_bundle(bundle.root)
    assert any("no provider of the bundle has the model 'z'" in problem.message for problem in problems.all)
