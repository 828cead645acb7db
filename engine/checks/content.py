"""Checks of what the assistant says: words and patterns.

`contains` and `regex` read the last reply, `contains_any`, `content_excludes` and `banned_words` every reply so far (promptkit-format.md 3.3).
"""

from collections.abc import Callable, Sequence

from engine.checks.evidence import Evaluate, Evidence, Outcome, ratio
from engine.checks.params import Param, Values, flag, one_of, pattern, texts
from engine.checks.registry import CheckType
from engine.checks.shown import bare, listed, shown
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
        return Outcome(ratio(len(patterns) - len(missing), len(patterns)), _not_found(missing, evidence.reply), {"missing": missing})

    return evaluate


def _contains_any(values: Values) -> Evaluate:
    fold = _folding(values)
    folded = [fold(entry) for entry in values["patterns"]]

    def evaluate(evidence: Evidence) -> Outcome:
        for reply in evidence.replies:
            text = fold(reply)
            for entry, lower in zip(values["patterns"], folded, strict=True):
                if lower in text:
                    return Outcome(1.0, f"found: {shown(entry)}", {"found": entry})
        return Outcome(
            0.0, f"none of these was found: {listed(values['patterns'])} in {len(evidence.replies)} replies; the last is {shown(evidence.reply)}"
        )

    return evaluate


def _content_excludes(values: Values) -> Evaluate:
    words = normal_words(values["patterns"], case_sensitive=values["case_sensitive"])
    whole = values["match_mode"] == "word_boundary"

    def evaluate(evidence: Evidence) -> Outcome:
        found = list(dict.fromkeys(word for reply in evidence.replies for word in find_banned(reply, words, whole=whole)))
        if not found:
            return Outcome(1.0, "none of the patterns was found")
        guilty = next(reply for reply in evidence.replies if find_banned(reply, words, whole=whole))
        return Outcome(0.0, f"found: {listed(found)} in {shown(guilty)}", {"found": found})

    return evaluate


def _regex(values: Values) -> Evaluate:
    compiled, expected = values["pattern"], values["expect_match"]

    def evaluate(evidence: Evidence) -> Outcome:
        matched = compiled.search(evidence.reply) is not None
        if matched == expected:
            return Outcome(1.0, "the pattern matched" if matched else "the pattern did not match")
        said = "matches" if matched else "does not match"
        return Outcome(0.0, f"the pattern {shown(compiled.pattern)} {said} {shown(evidence.reply)}")

    return evaluate


def _folding(values: Values) -> Callable[[str], str]:
    return str if values["case_sensitive"] else str.lower


def _not_found(missing: Sequence[str], reply: str) -> str:
    """Say what is missing where; of what a reader would find there, that only characters nobody sees make the difference."""
    explanation = f"not found: {listed(missing)} in {shown(reply)}"
    seen = bare(reply).lower()
    alike = [entry for entry in missing if bare(entry).lower() in seen]
    return f"{explanation}; {listed(alike)} would be found but for invisible or compatible characters" if alike else explanation


_PATTERNS = Param("patterns", texts, required=True)
_EXCLUDED = Param("patterns", texts, required=True, aliases=("words",))
_CASE = Param("case_sensitive", flag, default=False)
_MODES = one_of("substring", "word_boundary")

CHECKS = (
    CheckType("contains", (_PATTERNS, _CASE), _contains),
    CheckType("contains_any", (_PATTERNS, _CASE), _contains_any, spans=True),
    CheckType(
        "content_excludes", (_EXCLUDED, Param("match_mode", _MODES, default="substring"), _CASE), _content_excludes, asks=("patterns",), spans=True
    ),
    CheckType(
        "banned_words", (_EXCLUDED, Param("match_mode", _MODES, default="word_boundary"), _CASE), _content_excludes, asks=("patterns",), spans=True
    ),
    CheckType("regex", (Param("pattern", pattern, required=True), Param("expect_match", flag, default=True)), _regex),
)
