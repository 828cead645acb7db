"""Answers of a real provider, kept as a mock's: what `arena mocks generate` writes.

Owns how a transcript becomes a file of mock answers (PromptKit format, section 4.5): the n-th assistant message of a conversation is turn n,
which is how a mock counts its calls. Must not know where results lie.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from engine.errors import OutputUnavailable
from engine.items import Verdict


@dataclass(slots=True)
class MockAnswers:
    """The answers taken so far: scenario to turn to answer; `left_out` names items that could not be taken, with the reason."""

    provider: str = ""
    scenarios: dict[str, dict[int, Any]] = field(default_factory=dict)
    personas: dict[str, dict[int, Any]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def to_yaml(self) -> str:
        """Return the file; equal results give equal bytes."""
        document: dict[str, Any] = {"scenarios": {name: {"turns": turns} for name, turns in sorted(self.scenarios.items())}}
        if self.personas:
            document["selfplay"] = {name: {"turns": turns} for name, turns in sorted(self.personas.items())}
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)


def answers_of(items: Iterable[Mapping[str, Any]], *, provider: str = "") -> MockAnswers:
    """Take each scenario's answers from its first item of `provider` that ran to its end; "" is the only provider there is.

    A mock has one answer a turn, so other trials and perturbations are left out silently: they are the same scenario.

    Raises:
        OutputUnavailable: nothing can be taken, or `provider` is "" and there are several.
    """
    answers = MockAnswers(provider)
    seen: set[str] = set()
    for item in items:
        seen.add(item["provider"])
        if not provider and len(seen) > 1:
            raise OutputUnavailable(
                f"cannot choose answers: the results have several providers, at least {', '.join(sorted(seen))}",
                hint="name one with --provider",
            )
        if provider in {"", item["provider"]} and item["scenario"] not in answers.scenarios:
            _take(answers, item)
    if not answers.scenarios:
        whose = (
            f"no item of provider '{provider}' has a transcript that a mock could repeat"
            if provider
            else "no item has a transcript that a mock could repeat"
        )
        raise OutputUnavailable(f"cannot take answers: {whose}", hint=f"the results have providers {', '.join(sorted(seen))}" if seen else "")
    return answers


def _take(answers: MockAnswers, item: Mapping[str, Any]) -> None:
    """Add one conversation. A persona's entries are numbered by all that the user said, scripted or not, as the mock counts them."""
    if item["verdict"] not in {Verdict.PASS, Verdict.FAIL}:
        answers.left_out.append(f"{item['item']}: it did not run to its end")
        return
    if not item["messages"]:
        answers.left_out.append(f"{item['item']}: its transcript is lost")
        return
    replies = [message for message in item["messages"] if message.get("role") == "assistant"]
    if any(not isinstance(call.get("args"), Mapping) for message in replies for call in message.get("toolCalls") or ()):
        answers.left_out.append(f"{item['item']}: a tool call has arguments that are no JSON object")
        return
    answers.scenarios[item["scenario"]] = {number: _answer(message) for number, message in enumerate(replies, 1)}
    said = [message for message in item["messages"] if message.get("role") == "user"]
    for number, message in enumerate(said, 1):
        if persona := (message.get("meta") or {}).get("persona"):
            answers.personas.setdefault(str(persona), {}).setdefault(number, _answer(message))


def _answer(message: Mapping[str, Any]) -> Any:
    """Return one mock turn: the text alone, or an object when there are tool calls."""
    text, calls = message.get("content") or "", message.get("toolCalls") or []
    if not calls:
        return text
    answer: dict[str, Any] = {"type": "tool_calls", "content": text} if text else {"type": "tool_calls"}
    return answer | {"tool_calls": [{"name": call["name"], "arguments": call["args"]} for call in calls]}
