"""Classifiers and embedding models behind one port, and what their answers are worth to a check.

The vendors' adapters come with the other providers; the mock ships here, because checks, tests and mocked runs need it. Must not know which
score passes.
"""

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from engine.checks.evidence import Outcome
from engine.checks.questions import LabelQuestion, LikenessQuestion
from engine.providers.port import Reply

MOCK_DIMENSIONS = 256
_WORD = re.compile(r"\w+")

Charge = Callable[[Reply], None]
"""Counts the call that brought a reply."""


class Inference(Protocol):
    """A model that labels or embeds; used by many items at once."""

    async def labels(self, question: LabelQuestion, charge: Charge) -> Mapping[str, float] | None:
        """Return the score, 0 to 1, of every label the model knows, or None when this one cannot say (a mock without answers).

        Raises:
            ProviderError: there is no answer.
        """
        ...

    async def embed(self, texts: Sequence[str], charge: Charge) -> list[list[float]]:
        """Return an embedding of each text, all of one length.

        Raises:
            ProviderError: there is no answer.
        """
        ...


class MockInference:
    """Answers with the labels that its provider's `additional_config.labels` give, and embeds words by their hashes: equal words are alike, others not."""

    def __init__(self, labels: Mapping[str, float] | None) -> None:
        self._labels = labels

    async def labels(self, question: LabelQuestion, charge: Charge) -> Mapping[str, float] | None:
        """Return the scripted labels."""
        del question, charge
        return self._labels

    async def embed(self, texts: Sequence[str], charge: Charge) -> list[list[float]]:
        """Return counts of hashed words."""
        del charge
        return [_hashed(text) for text in texts]


async def label_outcome(question: LabelQuestion, model: Inference, charge: Charge) -> Outcome:
    """Ask for a label's score. A model that cannot say skips the check; one that does not know the label gives it 0 and says what it knows."""
    found = await model.labels(question, charge)
    if found is None:
        return Outcome(None, "the classifier is mocked and has no labels (additional_config.labels)", skipped=True)
    folded = {label.casefold(): score for label, score in found.items()}
    score = folded.get(question.label.casefold())
    value: dict[str, Any] = {"label": question.label, "scores": dict(found)}
    if score is None:
        return Outcome(0.0, f"the classifier does not know the label '{question.label}'; it knows: {', '.join(found) or 'none'}", value)
    return Outcome(score, f"'{question.label}' scores {score:.4g}", value)


async def likeness_outcome(question: LikenessQuestion, model: Inference, charge: Charge) -> Outcome:
    """Compare a text with a reference.

    Raises:
        ValueError: the reference is an embedding of another length than the model's.
    """
    if isinstance(question.reference, str):
        mine, theirs = await model.embed((question.text, question.reference), charge)
    else:
        [mine], theirs = await model.embed((question.text,), charge), list(question.reference)
    if len(mine) != len(theirs):
        raise ValueError(f"the reference has {len(theirs)} numbers, the model's embeddings have {len(mine)}")
    found = cosine(mine, theirs)
    score = 1.0 if found >= question.least else max(0.0, found)
    return Outcome(score, f"similarity {found:.4g}, at least {question.least:g} wanted", {"similarity": found})


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the cosine of two vectors of one length, from -1 to 1; 0 when one is nothing but zeros."""
    norm = math.sqrt(math.fsum(x * x for x in left)) * math.sqrt(math.fsum(x * x for x in right))
    if not norm:
        return 0.0
    return max(-1.0, min(1.0, math.fsum(x * y for x, y in zip(left, right, strict=True)) / norm))


def _hashed(text: str) -> list[float]:
    vector = [0.0] * MOCK_DIMENSIONS
    for word in _WORD.findall(text.casefold()):
        vector[int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:4], "big") % MOCK_DIMENSIONS] += 1.0
    return vector
