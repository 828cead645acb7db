"""How many tokens a text has, roughly: words times a ratio of the model's family (promptkit-format.md 2.5).

Owns the estimate that context budgets are compared with. What a provider really counted is its usage. Pure.
"""

import re
from collections.abc import Callable

from engine.providers.messages import Message, json_text

RATIOS = (("gpt", 1.30), ("claude", 1.30), ("gemini", 1.40), ("llama", 1.40))
DEFAULT_RATIO = 1.35
CODE_FACTOR = 1.4
"""Code has more tokens a word: names in pieces, and marks that stand alone."""
CODE_SHARE = 0.08
"""A text of which marks of code make up this share counts as code."""

_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
"""Chinese, Japanese and Korean letters: a token each, since no spaces part their words."""
_CODE_MARKS = re.compile(r"[{}()\[\];=<>|&]")

Estimate = Callable[[str], int]


def estimate_for(model: str) -> Estimate:
    """Return how to estimate texts for a model; its family is found in its name."""
    name = model.lower()
    ratio = next((value for family, value in RATIOS if family in name), DEFAULT_RATIO)
    return lambda text: estimate_tokens(text, ratio)


def estimate_tokens(text: str, ratio: float) -> int:
    """Return the tokens of `text`, at `ratio` tokens a word."""
    if not text:
        return 0
    unspaced = 0 if text.isascii() else len(_UNSPACED.findall(text))
    words = len((_UNSPACED.sub(" ", text) if unspaced else text).split())
    factor = CODE_FACTOR if len(_CODE_MARKS.findall(text)) > CODE_SHARE * len(text) else 1.0
    return round(words * ratio * factor) + unspaced


def message_tokens(message: Message, estimate: Estimate) -> int:
    """Return the tokens of a message: its text, and the tool calls in it."""
    calls = sum(estimate(f"{call.name} {call.raw or json_text(call.arguments)}") for call in message.tool_calls)
    return estimate(message.content) + calls
