"""Checks that a classifier or an embedding model decides, by the mock that ships."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checks import prepare_check, validate_check
from engine.checks.evidence import Evidence, Outcome
from engine.checks.questions import LikenessQuestion
from engine.judging.bench import Bench
from engine.judging.inference import MOCK_DIMENSIONS, MockInference, cosine, label_outcome, likeness_outcome
from engine.providers.ledger import Ledger
from engine.providers.messages import Message
from tests.judging.courtroom import held, labelled

LABEL = {"expected_label": "bad", "model": "m"}
SAID = held(Message("user", "Hi"), Message("assistant", "first"), Message("user", "Ho"), Message("assistant", "second"))
SOUND = {"type": "audio", "media": {"mimeType": "audio/wav"}}


@pytest.mark.parametrize(
    ("label", "score"),
    [
        pytest.param("bad", 0.2, id="a label in another case"),
        pytest.param("good", 0.9, id="another label"),
        pytest.param("ugly", 0.0, id="a label that the model does not know"),
    ],
)
async def test_a_label_scores_what_the_classifier_says(label: str, score: float) -> None:
    """The score is that of the expected label, however it is written; an unknown one is 0 and says which there are."""
    question = labelled("text_toxicity", LABEL | {"expected_label": label}, SAID)
    outcome = await label_outcome(question, MockInference({"good": 0.9, "Bad": 0.2}), Ledger().charge)
    assert outcome.score == score
    assert outcome.value == {"label": label, "scores": {"good": 0.9, "Bad": 0.2}}


@pytest.mark.parametrize(
    ("params", "text"),
    [
        pytest.param({}, "second", id="the last reply"),
        pytest.param({"message_index": 0}, "first", id="the first"),
        pytest.param({"message_role": "user"}, "Ho", id="the user's"),
    ],
)
def test_which_text_is_looked_at(params: dict[str, object], text: str) -> None:
    """Role and index choose the text; the last reply is the default."""
    assert labelled("text_sentiment", LABEL | params, SAID).text == text


def test_an_index_beyond_the_messages_is_an_error() -> None:
    """A message that is not there cannot be judged: no score, no skip."""
    with pytest.raises(ValueError, match="message_index is 2, and there are 2 messages"):
        prepare_check("text_toxicity", LABEL | {"message_index": 2})(SAID)


def test_media_are_found_by_role() -> None:
    """audio_emotion looks at the user's sound; without any the check is skipped."""
    spoken = held(Message("user", "", parts=[SOUND]), Message("assistant", "ok"))
    assert labelled("audio_emotion", LABEL, spoken).part == SOUND
    skipped = prepare_check("image_moderation", LABEL)(spoken)
    assert isinstance(skipped, Outcome)
    assert skipped.skipped


async def test_without_a_classifier_a_check_is_skipped(bench: Callable[..., Bench], costs: Ledger) -> None:
    """A bundle without a provider of role inference skips such checks (and warns), as the format has it; so does a mock without labels."""
    question = labelled("text_toxicity", LABEL, SAID)
    assert (await bench().answer(question, costs)).skipped
    assert (await label_outcome(question, MockInference(None), costs.charge)).skipped


@pytest.mark.parametrize(
    ("reference", "least", "score"),
    [
        pytest.param("Your order has shipped", 0.99, 1.0, id="the same words"),
        pytest.param("your ORDER has shipped!", 0.99, 1.0, id="case and punctuation are no words"),
        pytest.param("nothing in common here", 0.5, 0.0, id="other words"),
        pytest.param("", 0.5, None, id="nothing to compare with is refused"),
    ],
)
async def test_likeness(reference: str, least: float, score: float | None) -> None:
    """From min_similarity on a text is alike and scores 1; below it scores its similarity."""
    params = {"reference": reference, "min_similarity": least}
    assert (validate_check("cosine_similarity", params) == []) is (score is not None)
    if score is not None:
        question = prepare_check("cosine_similarity", params)(held(Message("assistant", "Your order has shipped")))
        assert isinstance(question, LikenessQuestion)
        assert (await likeness_outcome(question, MockInference(None), Ledger().charge)).score == pytest.approx(score)


async def test_an_embedding_of_another_length_is_an_error() -> None:
    """Embeddings of different models cannot be compared."""
    question = LikenessQuestion("a", (1.0, 0.0), 0.5)
    with pytest.raises(ValueError, match=f"the reference has 2 numbers, the model's embeddings have {MOCK_DIMENSIONS}"):
        await likeness_outcome(question, MockInference(None), Ledger().charge)


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=1, max_size=20))
def test_the_cosine_is_symmetric_and_bounded(pairs: list[tuple[float, float]]) -> None:
    """It is between -1 and 1, the same both ways, and 1 of a vector with itself unless it is nothing."""
    left, right = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    assert -1 <= cosine(left, right) <= 1
    assert cosine(left, right) == cosine(right, left)
    assert cosine(left, left) == (pytest.approx(1) if sum(x * x for x in left) else 0)


def test_nothing_said_has_no_label() -> None:
    """A conversation without a reply skips the check."""
    outcome = prepare_check("text_toxicity", LABEL)(Evidence())
    assert isinstance(outcome, Outcome)
    assert outcome.skipped
