"""What a refusal means that asks for time."""

import pytest

from engine.providers.refusals import LONGEST_WISH_S, refused, wishing


@pytest.mark.parametrize("wish_s", [None, 0.0, 20.0, LONGEST_WISH_S])
def test_a_wish_that_a_run_waits_for(wish_s: float | None) -> None:
    """The refusal passes."""
    error = wishing(refused(429, "slow down"), wish_s)
    assert (error.transient, error.retry_after_s, error.message) == (True, wish_s, "the provider answered 429: slow down")


@pytest.mark.parametrize("status", [429, 503])
def test_a_wish_that_no_run_waits_for(status: int) -> None:
    """It is an exhausted quota, whatever the words, and says why nobody asks again."""
    error = wishing(refused(status, "slow down"), 5400.0)
    assert (error.kind, error.transient, error.retry_after_s) == (refused(status, "").kind, False, None)
    assert error.message == f"the provider answered {status}: slow down; it asks to be left alone for 90 min, and a run waits 10 min at most"


def test_a_wish_beside_what_does_not_pass() -> None:
    """What would not be asked again anyway is left as it is."""
    error = refused(401, "who are you?")
    assert wishing(error, 5400.0) is error
    assert (error.transient, error.retry_after_s, error.message) == (False, None, "the provider answered 401: who are you?")
