"""Checks of how much the assistant says. Lengths are characters, never bytes (promptkit-format.md 13.4, item 10)."""

import re

from engine.checks.evidence import Evaluate, Evidence, Outcome, ratio
from engine.checks.params import Param, Values, count, texts
from engine.checks.registry import CheckType
from engine.checks.shown import listed, shown

CHARACTERS_PER_TOKEN = 4
"""A token is estimated as four characters, rounded down, wherever a limit is given in tokens."""

_SENTENCE_END = re.compile(r"[.!?]+(?=\s|$)")


def _min_length(values: Values) -> Evaluate:
    least: int = values["min"]

    def evaluate(evidence: Evidence) -> Outcome:
        length = len(evidence.reply)
        return Outcome(ratio(length, least), f"{length} characters, at least {least} wanted", {"length": length})

    return evaluate


def _max_length(values: Values) -> Evaluate:
    limit = character_limit(values["max"], values["max_tokens"])
    if limit is None:
        raise ValueError("one of 'max', 'max_characters', 'max_chars' and 'max_tokens' must be given")

    def evaluate(evidence: Evidence) -> Outcome:
        length = len(evidence.reply)
        return Outcome(1.0 if length <= limit else limit / length, f"{length} characters, at most {limit} allowed", {"length": length})

    return evaluate


def character_limit(characters: int | None, tokens: int | None) -> int | None:
    """Return the most characters that both limits allow; None without a limit."""
    by_tokens = None if tokens is None else (tokens + 1) * CHARACTERS_PER_TOKEN - 1
    given = [limit for limit in (characters, by_tokens) if limit is not None]
    return min(given) if given else None


def _sentence_count(values: Values) -> Evaluate:
    most: int | None = values["max_sentences"]

    def evaluate(evidence: Evidence) -> Outcome:
        sentences = count_sentences(evidence.reply)
        score = 1.0 if most is None or sentences <= most else most / sentences
        limit = "" if most is None else f", at most {most} allowed"
        return Outcome(score, f"{sentences} sentences{limit}", {"sentences": sentences})

    return evaluate


def count_sentences(text: str) -> int:
    """Count sentences: runs of . ! ? that a space or the end follows; a last sentence without one counts too."""
    stripped = text.strip()
    ends = len(_SENTENCE_END.findall(stripped))
    return ends + (1 if stripped and stripped[-1] not in ".!?" else 0)


def _field_presence(values: Values) -> Evaluate:
    fields = values["fields"]

    def evaluate(evidence: Evidence) -> Outcome:
        missing = [name for name in fields if name not in evidence.reply]
        explanation = f"missing: {listed(missing)} in {shown(evidence.reply)}" if missing else "all fields are there"
        return Outcome(ratio(len(fields) - len(missing), len(fields)), explanation, {"missing": missing})

    return evaluate


MAX_CHARACTERS = Param("max", count, aliases=("max_characters", "max_chars"))
MAX_TOKENS = Param("max_tokens", count)

CHECKS = (
    CheckType("min_length", (Param("min", count, required=True, aliases=("min_characters", "min_chars")),), _min_length),
    CheckType("max_length", (MAX_CHARACTERS, MAX_TOKENS), _max_length),
    CheckType("sentence_count", (Param("max_sentences", count, aliases=("max",)),), _sentence_count, asks=("max_sentences",)),
    CheckType("field_presence", (Param("fields", texts, required=True, aliases=("required_fields",)),), _field_presence, asks=("fields",)),
)
