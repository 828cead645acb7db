"""The account of one who spends: what adds up, what is not known, what was tried."""

from dataclasses import replace

import pytest

from engine.errors import ProviderError
from engine.items import Usage
from engine.providers.ledger import MAX_ATTEMPTS, MAX_MESSAGE, Ledger, attempts_json
from engine.providers.port import Attempt, Reply

PRICED, UNPRICED = Reply("a", usage=Usage(3, 2), cost_usd=0.5), Reply("b", usage=Usage(1, 1))
BUSY = Attempt("rate_limit", "busy", 1.0004, 500.0)


def ledger(*replies: Reply) -> Ledger:
    """Return the account of these calls."""
    found = Ledger()
    for reply in replies:
        found.charge(reply)
    return found


def test_a_call_without_a_price_makes_a_cost_partial() -> None:
    """What is known is summed, and that something is missing is said; without any call nothing is missing."""
    assert [(found.cost_usd, found.cost_is_partial) for found in (ledger(), ledger(PRICED), ledger(PRICED, UNPRICED), ledger(UNPRICED))] == [
        (None, False),
        (0.5, False),
        (0.5, True),
        (None, True),
    ]


def test_accounts_are_merged() -> None:
    """All of another account is counted: tokens, cost, what is not known, and what was tried."""
    found = ledger(PRICED)
    found.merge(ledger(Reply("", cost_usd=0.25), Reply("", usage=Usage(1), attempts=(BUSY,))))
    assert (found.usage, found.cost_usd, found.cost_is_partial, found.attempts) == (Usage(4, 2), 0.75, True, [BUSY])


def test_attempts_are_told_once() -> None:
    """What one message has told of is not told again with the next."""
    found = ledger(Reply("", attempts=(BUSY,)))
    assert found.tell() == {"attempts": [{"kind": "rate_limit", "message": "busy", "latencyMs": 1.0, "waitedMs": 500.0}]}
    assert found.tell() == {}


def test_attempts_are_bounded() -> None:
    """Results keep so many attempts and so much of each, whatever a storm brought."""
    kept = attempts_json([Attempt("rate_limit", "x" * 10_000, 1.0, 1.0)] * (MAX_ATTEMPTS + 1))
    assert (len(kept), len(kept[-1]["message"])) == (MAX_ATTEMPTS, MAX_MESSAGE)


@pytest.mark.parametrize(("kind", "partial"), [("timeout", True), ("protocol", True), ("rate_limit", False), ("unavailable", False)])
def test_a_request_that_may_have_been_answered_may_have_cost(kind: str, partial: bool) -> None:  # noqa: FBT001 - a row of the table
    """A provider may charge for what never arrived whole; one that refused charges nothing. It holds for attempts as for what failed for good."""
    failed, retried, error = (
        ledger(PRICED),
        ledger(replace(PRICED, attempts=(replace(BUSY, kind=kind),))),
        ProviderError("x", kind=kind, transient=True),
    )
    failed.fail(error)
    assert (failed.cost_is_partial, retried.cost_is_partial) == (partial, partial)


def test_a_failed_call_that_is_made_again_is_an_attempt() -> None:
    """The attempts of its requests come first, and the error tells them no second time."""
    found, error = Ledger(), ProviderError("gone", kind="unavailable", transient=True)
    error.attempts = (BUSY,)
    found.fail_and_retry(error)
    assert [attempt.message for attempt in found.attempts] == ["busy", "gone"]
    assert not error.attempts
