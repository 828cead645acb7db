"""Checks of what the assistant says: words and patterns.

`contains` and `regex` read the last reply, `contains_any`, `content_excludes` and `banned_words` every reply so far (promptkit-format.md 3.3).
"""

from collections.abc import Callable, Sequence

from engine.checks.evidence import Evaluate, Evidence, Outcome, ratio, verdict
from engine.checks.params import Param, Values, flag, one_of, pattern, texts
from engine.checks.registry import CheckType
from engine.checks.words import find_banned, normal_words


def _contains(values: Values) -> Evaluate:
    patterns, fold = values["patterns"], _folding(values)
    folded = [fold(entry) for entry in patterns]

    def evaluate(evidence: Evidence) -> Outcome:
        text = fold(evidence.reply)
        missing = [entry for entry, lower in zip(patterns, folded, strict=True) if lower not in text]
        if not patterns:
            return Outcome(0.0, "no patterns were given")
        if not missing:
            return Outcome(1.0, f"all {len(patterns)} patterns were found")
        return Outcome(ratio(len(patterns) - len(missing), len(patterns)), f"not found: {quoted(missing)}", {"missing": missing})

    return evaluate


def _contains_any(values: Values) -> Evaluate:
    fold = _folding(values)
    folded = [fold(entry) for entry in values["patterns"]]

    def evaluate(evidence: Evidence) -> Outcome:
        for reply in evidence.replies:
            text = fold(reply)
            for entry, lower in zip(values["patterns"], folded, strict=True):
                if lower in text:
                    return Outcome(1.0, f"found: '{entry}'", {"found": entry})
        return Outcome(0.0, f"none of these was found: {quoted(values['patterns'])}")

    return evaluate


def _content_excludes(values: Values) -> Evaluate:
    words = normal_words(values["patterns"], case_sensitive=values["case_sensitive"])
    whole = values["match_mode"] == "word_boundary"

    def evaluate(evidence: Evidence) -> Outcome:
        found = list(dict.fromkeys(word for reply in evidence.replies for word in find_banned(reply, words, whole=whole)))
        if not found:
            return Outcome(1.0, "none of the patterns was found")
        return Outcome(0.0, f"found: {quoted(found)}", {"found": found})

    return evaluate


def _regex(values: Values) -> Evaluate:
    compiled, expected = values["pattern"], values["expect_match"]

    def evaluate(evidence: Evidence) -> Outcome:
        matched = compiled.search(evidence.reply) is not None
        return verdict(holds=matched == expected, explanation="the pattern matched" if matched else "the pattern did not match")

    return evaluate


def _folding(values: Values) -> Callable[[str], str]:
    return str if values["case_sensitive"] else str.lower


def quoted(words: Sequence[str], limit: int = 10) -> str:
    """Return the words quoted and separated by commas; of more than `limit`, the first ones and how many more."""
    listed = ", ".join(f"'{word}'" for word in words[:limit])
    return listed if len(words) <= limit else f"{listed} and {len(words) - limit} more"


_PATTERNS = Param("patterns", texts, required=True)
_EXCLUDED = Param("patterns", texts, required=True, aliases=("words",))
_CASE = Param("case_sensitive", flag, default=False)
_MODES = one_of("substring", "word_boundary")

CHECKS = (
    CheckType("contains", (_PATTERNS, _CASE), _contains),
    CheckType("contains_any", (_PATTERNS, _CASE), _contains_any),
    CheckType("content_excludes", (_EXCLUDED, Param("match_mode", _MODES, default="substring"), _CASE), _content_excludes, asks=("patterns",)),
    CheckType("banned_words", (_EXCLUDED, Param("match_mode", _MODES, default="word_boundary"), _CASE), _content_excludes, asks=("patterns",)),
    CheckType("regex", (Param("pattern", pattern, required=True), Param("expect_match", flag, default=True)), _regex),
)
