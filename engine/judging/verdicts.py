"""A judge's reply, read: one JSON object with a score, or no verdict at all.

Owns what counts as a verdict. It is the whole of what the judge said, never a part that looks like one: a judge that quotes a candidate's own
"verdict" along the way has not decided. Must not know who was asked, nor what is done without a verdict.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.checks.json_content import fenced_block, parse_json

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string"},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "passed": {"type": "boolean"},
    },
    "required": ["reasoning", "score", "passed"],
    "additionalProperties": False,
}
"""What a judge is asked to reply."""

MAX_REASONING = 4000
"""Characters of a judge's reasoning that are kept."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge decided. `score` is 0 to 1; `passed` is the judge's own opinion (from half the score on when it gave none), which decides nothing."""

    score: float
    passed: bool
    reasoning: str = ""


def read_verdict(reply: str, shown: Iterable[str]) -> Verdict:
    """Read a judge's reply. `shown` are the texts that the judge was shown.

    The reply is one JSON object, or one block between lines of three backticks that holds it, and nothing else. `score` is a number from 0 to 1; when
    it is missing, `passed` gives 1 or 0. Other keys are no matter.

    Raises:
        ValueError: it is no verdict; the message says why, in words that the judge can be told.
    """
    text = reply.strip()
    if text.startswith("```"):
        block = fenced_block(text)
        text = block if block and text.endswith("```") and text.count("```") == 2 else text  # noqa: PLR2004 - a block has two ends
    try:
        found = parse_json(text)
    except ValueError as error:
        raise ValueError(f"it is not one JSON object: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - one kind of error, whatever is wrong with a reply
    if any(text in exhibit for exhibit in shown):
        raise ValueError("it repeats a text that was to be judged")
    return Verdict(_score(found), _passed(found), _reasoning(found))


def _score(found: Mapping[str, Any]) -> float:
    score, passed = found.get("score"), found.get("passed")
    if score is None and isinstance(passed, bool):
        return 1.0 if passed else 0.0
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise ValueError("'score' must be a number from 0 to 1")  # noqa: TRY004 - as above
    if math.isnan(score) or not 0 <= score <= 1:
        raise ValueError(f"'score' must be from 0 to 1, not {score:g}")
    return float(score)


def _passed(found: Mapping[str, Any]) -> bool:
    passed = found.get("passed")
    if passed is None:
        return _score(found) >= 0.5  # noqa: PLR2004 - half of the scale
    if not isinstance(passed, bool):
        raise ValueError("'passed' must be true or false")  # noqa: TRY004 - as above
    return passed


def _reasoning(found: Mapping[str, Any]) -> str:
    reasoning = found.get("reasoning", "")
    return reasoning[:MAX_REASONING] if isinstance(reasoning, str) else ""
