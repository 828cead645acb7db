"""Checks that a classifier or an embedding model decides (promptkit-format.md 3.6). Owns which text or medium is looked at."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.checks.evidence import Evaluate, Evidence, Outcome
from engine.checks.params import Param, Values, number, one_of, text, whole
from engine.checks.questions import LabelQuestion, LikenessQuestion, Question
from engine.checks.registry import CheckType


def _text_label(values: Values) -> Evaluate:
    return _labelled("text", values, lambda evidence, role: [m.content for m in evidence.messages if m.role == role and m.content.strip()])


def _media_label(kind: str) -> Callable[[Values], Evaluate]:
    def parts(evidence: Evidence, role: str) -> list[Mapping[str, Any]]:
        return [part for message in evidence.messages if message.role == role for part in message.parts if part.get("type") == kind]

    return lambda values: _labelled(kind, values, parts)


def _labelled(kind: str, values: Values, choose: Callable[[Evidence, str], Sequence[Any]]) -> Evaluate:
    role, index = values["message_role"], values["message_index"]

    def evaluate(evidence: Evidence) -> Outcome | Question:
        found = choose(evidence, role)
        if not found:
            return Outcome(None, f"no message of role {role} has {kind}", skipped=True)
        if index >= len(found):
            raise ValueError(f"message_index is {index}, and there are {len(found)} messages of role {role} with {kind}")
        chosen = found[max(index, -1)]
        target = {"text": chosen} if kind == "text" else {"part": chosen}
        return LabelQuestion(kind, values["expected_label"], values["model"], values["classifier_id"], **target)

    return evaluate


def _cosine(values: Values) -> Evaluate:
    def evaluate(evidence: Evidence) -> Outcome | Question:
        return LikenessQuestion(evidence.reply, values["reference"], values["min_similarity"], values["embedder"])

    return evaluate


def _reference(value: Any) -> str | tuple[float, ...]:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, list | tuple) and value:
        return tuple(number(entry) for entry in value)
    raise ValueError("must be a text, or a list of numbers (an embedding)")


def _label_params(role: str) -> tuple[Param, ...]:
    return (
        Param("expected_label", text, required=True),
        Param("model", text, required=True),
        Param("message_role", one_of("user", "assistant"), default=role),
        Param("message_index", whole, default=-1),
        Param("classifier_id", text, default="", aliases=("provider",)),
    )


CHECKS = (
    CheckType("text_toxicity", _label_params("assistant"), _text_label, asks_model="text_classifier"),
    CheckType("text_sentiment", _label_params("assistant"), _text_label, asks_model="text_classifier"),
    CheckType("audio_emotion", _label_params("user"), _media_label("audio"), asks_model="audio_classifier"),
    CheckType("image_moderation", _label_params("assistant"), _media_label("image"), asks_model="image_classifier"),
    CheckType(
        "cosine_similarity",
        (
            Param("reference", _reference, required=True),
            Param("min_similarity", number, required=True),
            Param("embedder", text, default="", aliases=("provider",)),
        ),
        _cosine,
        asks_model="embedder",
    ),
)
