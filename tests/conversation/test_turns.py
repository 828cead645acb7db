"""How a conversation goes: turns, checks, what ends it, and what its transcript shows."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine.bundle.model import PromptConfig, Scenario, Variable
from engine.conversation.brief import assemble_prompt
from engine.errors import BundleInvalid
from engine.items import ItemResult, Scope, Verdict
from engine.results.lines import item_json

Hold = Callable[..., Awaitable[ItemResult]]


def user(content: str, *checks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a scripted turn."""
    return {"role": "user", "content": content, "assertions": list(checks), **more}


def says(word: str, **more: Any) -> dict[str, Any]:
    """Return a check that the last reply says `word`."""
    return {"type": "content_includes", "params": {"patterns": [word]}, **more}


def texts(result: ItemResult, role: str = "assistant") -> list[str]:
    """Return what a role said."""
    return [message["content"] for message in result.messages if message["role"] == role]


async def test_a_conversation_is_held(hold: Hold) -> None:
    """Every turn is said, answered and checked; the transcript starts with the system prompt."""
    result = await hold(
        [user("Hi", says("hello")), user("Bye", says("bye"))], {1: "hello", 2: "bye"}, scenario={"conversation_assertions": [says("bye")]}
    )
    assert result.verdict is Verdict.PASS
    assert [message["role"] for message in result.messages] == ["system", "user", "assistant", "user", "assistant"]
    assert [(check.scope, check.turn) for check in result.checks] == [(Scope.TURN, 0), (Scope.TURN, 1), (Scope.CONVERSATION, None)]
    assert (result.turns, result.messages[0]["content"], result.error) == (2, "Be kind.", None)


async def test_a_failed_turn_is_the_last(hold: Hold) -> None:
    """All checks of a turn are evaluated; when one fails no further turn is taken, which the result says, and the conversation's checks see what there is."""
    turns = [user("Hi", says("nothing"), says("hello")), user("Bye", says("bye"))]
    result = await hold(turns, {1: "hello", 2: "bye"}, scenario={"conversation_assertions": [says("hello")]})
    assert result.verdict is Verdict.FAIL
    assert [check.passed for check in result.checks] == [False, True, True]
    assert (result.turns, texts(result, "user")) == (1, ["Hi"])
    assert (result.unheld_turns, item_json(result, "")["unheldTurns"]) == (1, 1)


async def test_labels_are_results(hold: Hold) -> None:
    """A scenario's labels stand in its results, for whoever groups them."""
    result = await hold([user("Hi")], {1: "hello"}, scenario={"labels": {"team": "a"}})
    assert item_json(result, "")["labels"] == {"team": "a"}
    assert "unheldTurns" not in item_json(result, "")


async def test_a_failed_conversation_check_fails(hold: Hold) -> None:
    """A check of the whole conversation fails its item like one of a turn."""
    result = await hold([user("Hi")], {1: "hello"}, scenario={"conversation_assertions": [says("bye", message="say bye")]})
    assert (result.verdict, result.checks[0].message) == (Verdict.FAIL, "say bye")


async def test_a_scenario_without_checks_passes(hold: Hold) -> None:
    """A scenario without checks has nothing that could fail."""
    result = await hold([user("Hi")], {1: "hello"})
    assert (result.verdict, result.checks) == (Verdict.PASS, [])


async def test_a_perturbation_is_said(hold: Hold) -> None:
    """The item's value takes the place of `{key}`, and only of that."""
    result = await hold([user("Check {id} {other}", perturbations={"id": ["A", "B"]}), user("Again {id}")], {1: "ok", 2: "ok"})
    assert texts(result, "user") == ["Check A {other}", "Again A"]


async def test_a_wrapped_check_shows_both_names(hold: Hold) -> None:
    """The `assertion` wrapper keeps its name, its bounds hold, and the type inside is named too."""
    wrapped = {"type": "assertion", "params": {"eval_type": "contains", "eval_params": {"patterns": ["hello", "x"]}, "min_score": 0.5}}
    result = await hold([user("Hi", wrapped)], {1: "hello"})
    assert [(check.type, check.name, check.score, check.passed) for check in result.checks] == [("assertion", "contains", 0.5, True)]


@pytest.mark.parametrize("place", ["turn", "conversation"])
async def test_an_unmet_when_is_skipped_and_passes(hold: Hold, place: str) -> None:
    """A check whose `when` is not met passes in either place; the reference fails it after a conversation."""
    check = says("nothing", when={"any_tool_called": True})
    turn, scenario = (user("Hi", check), {}) if place == "turn" else (user("Hi"), {"conversation_assertions": [check]})
    result = await hold([turn], {1: "hello"}, scenario=scenario)
    assert (result.verdict, result.checks[0].skipped) == (Verdict.PASS, True)


async def test_a_budget_sees_real_costs(hold: Hold) -> None:
    """A conversation that costs more than its budget fails."""
    budget = {"type": "cost_budget", "params": {"max_cost_usd": 0.0000001}}
    result = await hold([user("Hi")], {1: "hello"}, scenario={"conversation_assertions": [budget]})
    assert result.verdict is Verdict.FAIL
    assert result.cost_usd == pytest.approx((10 + 1) * 0.00001)


async def test_a_reply_equal_to_the_question_keeps_both(hold: Hold) -> None:
    """A reply with the user's own words does not take the user's message out of the transcript."""
    result = await hold([user("same")], {1: "same"})
    assert [message["role"] for message in result.messages] == ["system", "user", "assistant"]


@pytest.mark.parametrize(
    "prompt",
    [
        pytest.param(PromptConfig("p", "p", "p.yaml", "t", "In {{ city }}"), id="a placeholder"),
        pytest.param(PromptConfig("p", "p", "p.yaml", "t", "In town", variables=(Variable("city", required=True),)), id="a required variable"),
    ],
)
def test_a_missing_variable_is_an_error(prompt: PromptConfig) -> None:
    """A prompt that nothing fills is an error of the bundle, never a silent other question."""
    with pytest.raises(BundleInvalid, match="no value for 'city'"):
        assemble_prompt(prompt, {}, Scenario("s", "s.yaml"))


async def test_variables_fill_the_prompt(hold: Hold) -> None:
    """Placeholders are filled from the scenario, then from defaults, with or without spaces, values inside values too."""
    prompt = {
        "system_template": "{{a}} {{ b }} {{domain}}",
        "variables": [{"name": "a", "type": "string", "default": "unused"}, {"name": "b", "type": "string", "default": "<{{a}}>"}],
    }
    result = await hold([user("Hi")], {1: "hello"}, prompt=prompt, scenario={"variables": {"a": "A"}, "context_metadata": {"domain": "shop"}})
    assert result.messages[0]["content"] == "A <A> shop"


async def test_text_parts_are_what_was_said(hold: Hold) -> None:
    """A reply that the mock gives in parts says their text; checks read it."""
    parts = [{"type": "text", "text": "hel"}, {"type": "image", "image_url": {"url": "mock://a.png"}}, {"type": "text", "text": "lo"}]
    result = await hold([user("Hi", says("hello"))], {1: {"parts": parts}})
    assert (result.verdict, texts(result)) == (Verdict.PASS, ["hello"])


async def test_values_of_perturbations_are_said_as_they_are(hold: Hold) -> None:
    """A value that spells another key is not replaced in its turn."""
    turn = user("{a} {b}", perturbations={"a": ["{b}"], "b": ["x"]})
    assert texts(await hold([turn], {1: "hello"}), "user") == ["{b} x"]
