"""Guardrails: validators of a prompt that rewrite what they catch, on the way in or out (promptkit-format.md 5.4).

A guardrail is a check of one message with a consequence: a reply that is too long is cut, any other is replaced. The first one that fires wins.
On a stream only words and lengths are judged early, and a whole word only once it has ended; all others wait for the end. A check that breaks
fires (a guardrail fails closed); a judge that cannot be asked is an error of the conversation, which went otherwise than the author wrote it.
Must not know how replies are obtained.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.bundle.model import PromptConfig
from engine.bundle.model import Validator as Declared
from engine.checks.compiled import Bounds
from engine.checks.evidence import Evaluate, Evidence, Outcome
from engine.checks.length import character_limit
from engine.checks.params import read_params
from engine.checks.questions import Answers, Question
from engine.checks.registry import ALIASES, check_types, prepare_check
from engine.checks.words import begins_banned, normal_words
from engine.providers.messages import Validation

BLOCKED_REPLY = "Sorry, we can't provide this response as it would violate our content policy."
"""What replaces a blocked message whose validator has no `message` of its own."""

Early = Callable[[str, int], bool]
"""Says of the beginning of a reply, of which so many characters were judged before, that it can be judged already, and fails."""


@dataclass(frozen=True, slots=True)
class Firing:
    """A guardrail that fired: what to record, and the text that takes the message's place."""

    validation: Validation
    text: str


@dataclass(frozen=True, slots=True)
class Guardrail:
    """One validator, compiled. `limit` is set for lengths: the characters to keep."""

    type: str
    evaluate: Evaluate
    direction: str
    replacement: str
    bounds: Bounds
    limit: int | None = None
    early: Early | None = None

    async def judge(self, evidence: Evidence, answers: Answers, *, incoming: bool) -> Firing | None:
        """Return the firing that the message `evidence.reply` causes, or None.

        Raises:
            ProviderError, JudgeFailed: who was to be asked gave no answer.
        """
        found = self._look(evidence)
        return self._decide(found if isinstance(found, Outcome) else await answers.answer(found), evidence, incoming=incoming)

    def _look(self, evidence: Evidence) -> Outcome | Question:
        try:
            return self.evaluate(evidence)
        except Exception as error:  # noqa: BLE001 - fails closed, and says why in the transcript
            return Outcome(None, f"the guardrail failed: {type(error).__name__}: {error}")

    def _decide(self, outcome: Outcome, evidence: Evidence, *, incoming: bool) -> Firing | None:
        lets_pass = outcome.skipped or (outcome.score is not None and self.bounds.pass_score(outcome.score))
        return None if lets_pass else self._fire(evidence.reply, outcome, incoming=incoming)

    def judge_beginning(self, text: str, known: int) -> Firing | None:
        """Return the firing that a reply causes whatever follows its beginning, or None; its first `known` characters caused none."""
        if self.early is None or not self.early(text, known):
            return None
        evidence = Evidence(reply=text, replies=(text,))
        found = self._look(evidence)
        return self._decide(found, evidence, incoming=False) if isinstance(found, Outcome) else None

    def _fire(self, text: str, outcome: Outcome, *, incoming: bool) -> Firing:
        cut = not incoming and self.limit is not None and len(text) > self.limit
        direction = "input" if incoming else "output"
        return Firing(Validation(self.type, direction, outcome.score, outcome.explanation), text[: self.limit] if cut else self.replacement)


class Guardrails:
    """All guardrails of a prompt, in its order."""

    def __init__(self, guardrails: Sequence[Guardrail] = ()) -> None:
        self._incoming = tuple(guard for guard in guardrails if guard.direction in ("input", "both"))
        self._outgoing = tuple(guard for guard in guardrails if guard.direction in ("output", "both"))
        self._early = tuple(guard for guard in self._outgoing if guard.early is not None)

    @property
    def judge_streams(self) -> bool:
        """Say whether any guardrail can fire before a reply is complete."""
        return bool(self._early)

    @property
    def judge_inputs(self) -> bool:
        """Say whether any guardrail judges what the user says."""
        return bool(self._incoming)

    @property
    def judge_outputs(self) -> bool:
        """Say whether any guardrail judges replies."""
        return bool(self._outgoing)

    async def judge_input(self, evidence: Evidence, answers: Answers) -> Firing | None:
        """Return the first firing that a user's message (`evidence.reply`) causes, or None; raises as `Guardrail.judge`."""
        for guard in self._incoming:
            if (fired := await guard.judge(evidence, answers, incoming=True)) is not None:
                return fired
        return None

    async def judge_output(self, evidence: Evidence, answers: Answers) -> Firing | None:
        """Return the first firing that a complete reply (`evidence.reply`) causes, or None; raises as `Guardrail.judge`."""
        for guard in self._outgoing:
            if (fired := await guard.judge(evidence, answers, incoming=False)) is not None:
                return fired
        return None

    def judge_beginning(self, text: str, known: int) -> Firing | None:
        """Return the first firing that a reply with this beginning is certain to cause, or None; its first `known` characters caused none."""
        return next((fired for guard in self._early if (fired := guard.judge_beginning(text, known))), None)


def compile_guardrails(prompt: PromptConfig) -> Guardrails:
    """Compile the enabled validators of a prompt.

    Raises:
        ValueError: a validator is unknown, not built, or mistyped; the loader said so beforehand.
    """
    return Guardrails([_compile(declared) for declared in prompt.validators if declared.enabled])


def _compile(declared: Declared) -> Guardrail:
    name = ALIASES.get(declared.type, declared.type)
    evaluate = prepare_check(declared.type, declared.params)
    limit: int | None = None
    early: Early | None = None
    if name in ("max_length", "content_excludes", "banned_words"):
        values, _ = read_params(check_types()[name].declared, declared.params)
        if name == "max_length":
            limit = character_limit(values["max"], values["max_tokens"])
        early = _too_long(limit) if limit is not None else _holds_words(values)
    return Guardrail(
        type=declared.type,
        evaluate=evaluate,
        direction=declared.direction,
        replacement=declared.message or BLOCKED_REPLY,
        bounds=Bounds(declared.min_score, declared.max_score),
        limit=limit,
        early=early if declared.min_score is None and declared.max_score is None else None,
    )


def _too_long(limit: int) -> Early:
    return lambda text, _: len(text) > limit


def _holds_words(values: dict[str, object]) -> Early:
    patterns, case_sensitive = values["patterns"], values["case_sensitive"]
    words = normal_words(patterns if isinstance(patterns, tuple) else (), case_sensitive=bool(case_sensitive))
    whole = values["match_mode"] == "word_boundary"
    return lambda text, known: begins_banned(text, known, words, whole=whole)
