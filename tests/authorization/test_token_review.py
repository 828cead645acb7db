"""What the API server is asked, how often, and what counts while it does not answer."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from arena.authorization.errors import DecisionUnavailable, NotAllowed, NotAuthenticated
from arena.authorization.memory import MAX_ANSWERS
from arena.authorization.port import Action, Credential, fetch, push
from arena.authorization.token_review import NO_S, YES_S, TokenReviewAuthorizer
from foundation.clock import FakeClock
from reconcile.cluster.reviews import SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW
from reconcile.errors import FieldError, Forbidden, Invalid, StoreUnavailable, Unauthorized
from tests.authorization.headers import TOKEN
from tests.authorization.scripted_reviews import ScriptedReviews

CI = "system:serviceaccount:n0:ci"
FETCH, PUSH = fetch("n0", "support"), push("n0", "support")
KNOWN, STRANGE = Credential(TOKEN), Credential(f"{TOKEN}-strange")


@pytest.fixture
def reviews() -> ScriptedReviews:
    """Give an API server that knows one account, which may fetch."""
    found = ScriptedReviews()
    found.add(TOKEN, CI, [("get", "n0/arenaprojects/git")], uid="u-1", groups=["system:serviceaccounts"], extra={"pod": ["a"], "node": ["b", "c"]})
    return found


@pytest.fixture
def authorizer(reviews: ScriptedReviews, clock: FakeClock) -> TokenReviewAuthorizer:
    """Give the authorizer."""
    return TokenReviewAuthorizer(reviews, clock)


async def test_the_user_is_passed_on_in_full(authorizer: TokenReviewAuthorizer, reviews: ScriptedReviews) -> None:
    """The second question names the user as the first was answered, groups and all, and the object by its namespace and name."""
    assert (await authorizer.authorize(KNOWN, FETCH)).name == CI
    assert reviews.asked == [
        ("TokenReview", {"token": TOKEN}),
        (
            "SubjectAccessReview",
            {
                "user": CI,
                "uid": "u-1",
                "groups": ["system:serviceaccounts"],
                "extra": {"node": ["b", "c"], "pod": ["a"]},
                "resourceAttributes": {
                    "verb": "get",
                    "group": "omnia.altairalabs.ai",
                    "resource": "arenaprojects",
                    "subresource": "git",
                    "namespace": "n0",
                    "name": "support",
                },
            },
        ),
    ]


async def test_what_was_allowed_is_not_asked_again(authorizer: TokenReviewAuthorizer, reviews: ScriptedReviews, clock: FakeClock) -> None:
    """For ten seconds neither question is repeated; then both are."""
    for _ in range(5):
        await authorizer.authorize(KNOWN, FETCH)
        await clock.advance(YES_S / 5 - 0.01)
    assert len(reviews.asked) == 2
    await clock.advance(1)
    await authorizer.authorize(KNOWN, FETCH)
    assert len(reviews.asked) == 4


async def test_each_action_is_asked_about(authorizer: TokenReviewAuthorizer, reviews: ScriptedReviews) -> None:
    """That one thing is allowed says nothing of another verb, project or namespace; the token is known already."""
    await authorizer.authorize(KNOWN, FETCH)
    for action in (PUSH, fetch("n1", "support")):
        with pytest.raises(NotAllowed, match=CI):
            await authorizer.authorize(KNOWN, action)
    assert (reviews.count(TOKEN_REVIEW), reviews.count(SUBJECT_ACCESS_REVIEW)) == (1, 3)


async def test_a_refusal_is_remembered_shortly(authorizer: TokenReviewAuthorizer, reviews: ScriptedReviews, clock: FakeClock) -> None:
    """A wrong token, and an action that is refused, are asked about again after five seconds: a role that was just given counts then."""
    for _ in range(3):
        with pytest.raises(NotAuthenticated):
            await authorizer.authorize(STRANGE, FETCH)
        with pytest.raises(NotAllowed):
            await authorizer.authorize(KNOWN, PUSH)
    assert len(reviews.asked) == 3
    reviews.grants.add((CI, "update", "n0/arenaprojects/git"))
    await clock.advance(NO_S)
    assert await authorizer.authorize(KNOWN, PUSH)
    with pytest.raises(NotAuthenticated):
        await authorizer.authorize(STRANGE, FETCH)


async def test_a_revoked_token_ends(authorizer: TokenReviewAuthorizer, reviews: ScriptedReviews, clock: FakeClock) -> None:
    """A token that is no longer valid works for ten seconds at most."""
    await authorizer.authorize(KNOWN, FETCH)
    reviews.users.clear()
    await clock.advance(YES_S)
    with pytest.raises(NotAuthenticated):
        await authorizer.authorize(KNOWN, FETCH)


async def test_many_at_once_ask_once(authorizer: TokenReviewAuthorizer, reviews: ScriptedReviews) -> None:
    """Fifty clones with one token at one time are two questions."""
    reviews.waiting = asyncio.Event()
    tasks = [asyncio.ensure_future(authorizer.authorize(KNOWN, FETCH)) for _ in range(50)]
    for _ in range(5):
        await asyncio.sleep(0)
    reviews.waiting.set()
    assert {caller.name for caller in await asyncio.gather(*tasks)} == {CI}
    assert len(reviews.asked) == 2


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(StoreUnavailable("cannot create TokenReview: the API server does not answer"), "does not answer", id="no answer"),
        pytest.param(Unauthorized("cannot create TokenReview: Unauthorized"), "Unauthorized", id="our own token is refused"),
        pytest.param(Forbidden('cannot create TokenReview: User "arena" cannot create resource'), "cannot create resource", id="we may not ask"),
        pytest.param(
            Invalid([FieldError("spec.token", f'Invalid value: "{TOKEN}"')]), "Invalid", id="the question is refused, in words that quote it"
        ),
    ],
)
async def test_no_answer_is_no_entry(authorizer: TokenReviewAuthorizer, reviews: ScriptedReviews, error: Exception, said: str) -> None:
    """Where the API server does not decide, nobody gets in, the error says why without the token, and the next request asks again."""
    reviews.error = error
    with pytest.raises(DecisionUnavailable, match=said) as caught:
        await authorizer.authorize(KNOWN, FETCH)
    assert TOKEN not in f"{caught.value.message} {caught.value.hint}"
    reviews.error = None
    assert await authorizer.authorize(KNOWN, FETCH)


async def test_an_answer_that_does_not_come(reviews: ScriptedReviews, clock: FakeClock) -> None:
    """A client is not kept waiting for an API server that takes its time."""
    reviews.waiting = asyncio.Event()
    with pytest.raises(DecisionUnavailable, match=r"more than 0\.01 s for a TokenReview"):
        await TokenReviewAuthorizer(reviews, clock, review_s=0.01).authorize(KNOWN, FETCH)


async def test_who_was_let_in_stays_for_a_moment(authorizer: TokenReviewAuthorizer, reviews: ScriptedReviews, clock: FakeClock) -> None:
    """While the API server is away, what it allowed seconds ago still goes on, a clone in its midst; then nothing does."""
    await authorizer.authorize(KNOWN, FETCH)
    reviews.error = StoreUnavailable("cannot create TokenReview: the API server does not answer")
    await clock.advance(YES_S - 1)
    assert await authorizer.authorize(KNOWN, FETCH)
    await clock.advance(1)
    with pytest.raises(DecisionUnavailable):
        await authorizer.authorize(KNOWN, FETCH)


@pytest.mark.parametrize(
    "user",
    [
        pytest.param({}, id="no user"),
        pytest.param({"username": ""}, id="an empty name"),
        pytest.param({"username": "system:anonymous", "groups": ["system:unauthenticated"]}, id="nobody by name"),
        pytest.param({"groups": ["system:masters"]}, id="groups without a name"),
    ],
)
async def test_answers_that_say_nothing(authorizer: TokenReviewAuthorizer, reviews: ScriptedReviews, user: dict[str, Any]) -> None:
    """An answer that names nobody lets nobody in."""
    reviews.users[STRANGE.token] = user
    with pytest.raises(NotAuthenticated):
        await authorizer.authorize(STRANGE, FETCH)


async def test_an_empty_verdict(authorizer: TokenReviewAuthorizer, reviews: ScriptedReviews, clock: FakeClock) -> None:
    """An answer without a verdict is a refusal, to either question."""
    await authorizer.authorize(KNOWN, FETCH)
    reviews.silent = True
    with pytest.raises(NotAllowed):
        await authorizer.authorize(KNOWN, PUSH)
    await clock.advance(YES_S)
    with pytest.raises(NotAuthenticated):
        await authorizer.authorize(KNOWN, FETCH)


async def test_what_the_server_says_is_logged_without_the_token(authorizer: TokenReviewAuthorizer) -> None:
    """The API server's word on a token is kept for our log, with the token taken out."""
    with pytest.raises(NotAuthenticated) as caught:
        await authorizer.authorize(STRANGE, FETCH)
    assert caught.value.cause == "invalid bearer token: [token]"
    assert "invalid bearer" not in caught.value.message


async def test_a_verdict_with_an_error_in_it(authorizer: TokenReviewAuthorizer, reviews: ScriptedReviews) -> None:
    """A role that is missing makes the API server decide without it; the log says so."""
    reviews.incomplete = "role not found"
    with capture_logs() as logs:
        assert await authorizer.authorize(KNOWN, FETCH)
    assert [entry["cause"] for entry in logs] == ["role not found"]


async def test_a_suspect_stranger_is_not_asked_about(authorizer: TokenReviewAuthorizer, reviews: ScriptedReviews) -> None:
    """From an address where too many logins fail, an unknown token does not reach the API server."""
    with pytest.raises(NotAuthenticated):
        await authorizer.authorize(Credential(STRANGE.token, suspect=True), FETCH)
    assert reviews.asked == []


async def test_a_suspect_acquaintance_is(authorizer: TokenReviewAuthorizer, reviews: ScriptedReviews, clock: FakeClock) -> None:
    """A token that the API server knew within the hour is asked about from there too, so a broken client next to it locks nobody out."""
    await authorizer.authorize(KNOWN, FETCH)
    await clock.advance(3000)
    assert await authorizer.authorize(Credential(TOKEN, suspect=True), FETCH)
    assert reviews.count(TOKEN_REVIEW) == 2


async def test_wrong_tokens_do_not_push_out_the_known(authorizer: TokenReviewAuthorizer, reviews: ScriptedReviews) -> None:
    """However many wrong tokens come, memory is bounded and what is known stays so."""
    await authorizer.authorize(KNOWN, FETCH)
    for number in range(MAX_ANSWERS + 10):
        with pytest.raises(NotAuthenticated):
            await authorizer.authorize(Credential(f"wrong-{number}"), FETCH)
    before = len(reviews.asked)
    await authorizer.authorize(KNOWN, FETCH)
    assert len(reviews.asked) == before


async def test_an_action_of_another_sort(authorizer: TokenReviewAuthorizer) -> None:
    """The refusal says which verb on what a role would have to grant."""
    with pytest.raises(NotAllowed) as caught:
        await authorizer.authorize(KNOWN, Action("get", "pods", "n0", "w-0", "log", ""))
    assert caught.value.message == f"cannot get pods/log 'n0/w-0': '{CI}' may not"
    assert "'get' on 'pods/log'" in caught.value.hint
