"""Mock answers from results: what was said is said again, and what cannot be repeated is named."""

from typing import Any

import pytest
import yaml

from engine.errors import OutputUnavailable
from engine.results.mock_answers import answers_of

USER = {"role": "user", "content": "hi"}


def item(scenario: str = "s", provider: str = "p", verdict: str = "pass", **more: Any) -> dict[str, Any]:
    """Return an item of one turn."""
    messages = [USER, {"role": "assistant", "content": f"{scenario} by {provider}"}]
    return {"item": f"{scenario}/{provider}/1", "scenario": scenario, "provider": provider, "verdict": verdict, "messages": messages, **more}


def test_each_assistant_message_is_a_turn() -> None:
    """Turns count the mock's calls: one that calls tools is one, its follow-up the next."""
    call = {"id": "1", "name": "look", "args": {"q": 1}}
    messages = [
        USER,
        {"role": "assistant", "content": "", "toolCalls": [call]},
        {"role": "tool", "content": "x"},
        {"role": "assistant", "content": "done"},
    ]
    document = yaml.safe_load(answers_of([item(messages=messages)]).to_yaml())
    assert document == {
        "scenarios": {"s": {"turns": {1: {"type": "tool_calls", "tool_calls": [{"name": "look", "arguments": {"q": 1}}]}, 2: "done"}}}
    }


def test_a_persona_has_its_own_answers() -> None:
    """What a simulated user said is kept under its persona."""
    said = {"role": "user", "content": "I am cross", "meta": {"persona": "angry"}}
    answers = answers_of([item(messages=[said, {"role": "assistant", "content": "sorry"}])])
    assert answers.personas == {"angry": {1: "I am cross"}}


def test_a_persona_counts_what_was_said_before_it() -> None:
    """A persona's entries are numbered by everything that the user said, as the mock that plays them back counts."""
    said = {"role": "user", "content": "I am cross", "meta": {"persona": "angry"}}
    answers = answers_of([item(messages=[USER, {"role": "assistant", "content": "hello"}, said, {"role": "assistant", "content": "sorry"}])])
    assert answers.personas == {"angry": {2: "I am cross"}}


def test_the_first_item_of_a_scenario_counts() -> None:
    """Other trials say other things; a mock says one."""
    second = item(messages=[USER, {"role": "assistant", "content": "other"}])
    assert answers_of([item(), second]).scenarios == {"s": {1: "s by p"}}


def test_several_providers_need_a_choice() -> None:
    """Answers of two providers are never mixed."""
    items = [item(), item(provider="q")]
    with pytest.raises(OutputUnavailable, match="several providers, at least p, q") as caught:
        answers_of(items)
    assert "--provider" in caught.value.hint
    assert answers_of(items, provider="q").scenarios == {"s": {1: "s by q"}}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (item(verdict="error"), "it did not run to its end"),
        (item(messages=[]), "its transcript is lost"),
        (item(messages=[USER, {"role": "assistant", "content": "", "toolCalls": [{"name": "x", "args": "{"}]}]), "no JSON object"),
    ],
    ids=["error", "lost", "arguments"],
)
def test_what_cannot_be_repeated_is_named(broken: dict[str, Any], reason: str) -> None:
    """It is left out with its reason, and a later item of the scenario is taken instead; alone it is an error."""
    answers = answers_of([broken, item()])
    assert answers.scenarios == {"s": {1: "s by p"}}
    assert [reason in line for line in answers.left_out] == [True]
    with pytest.raises(OutputUnavailable, match="no item has a transcript"):
        answers_of([broken])
