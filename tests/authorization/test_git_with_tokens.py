"""A real git client at a server that asks for tokens: what it is let do, and what it is told otherwise."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from arena.authorization.entrance import InTurn
from arena.authorization.failures import FailureLimits, Failures
from arena.authorization.token_file import TokenFile
from arena.authorization.token_review import TokenReviewAuthorizer
from foundation.clock import FakeClock, SystemClock
from hooks.rate_limit import Rate
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.errors import StoreUnavailable
from tests.authorization.adapters import HOME, entry, write_tokens
from tests.authorization.git_service import GitService, git_service
from tests.authorization.headers import TOKEN
from tests.authorization.scripted_reviews import ScriptedReviews

READER, WRITER, ACCOUNT, BLOCKED = f"reader-{TOKEN}", f"writer-{TOKEN}", f"account-{TOKEN}", f"blocked-{TOKEN}"


@pytest.fixture
def reviews() -> ScriptedReviews:
    """Give an API server with one account that may do everything, and knows a token that stands in the file too."""
    found = ScriptedReviews()
    for token in (ACCOUNT, BLOCKED):
        found.add(token, token[:7], [(verb, f"{HOME}/arenaprojects/git") for verb in ("get", "update")])
    return found


@pytest.fixture
async def service(cluster: SqliteCluster, reviews: ScriptedReviews, clock: FakeClock, tmp_path: Path) -> AsyncIterator[GitService]:
    """Run a git server as a cluster has it: a token file first, then reviews. Three logins may fail."""
    failures = Failures(clock, FailureLimits(source=Rate(burst=3, every_s=60.0)))
    entries = [entry("reader", READER, ["read"], [f"{HOME}/*"]), entry("writer", WRITER, ["read", "push"], [f"{HOME}/*"])]
    path = write_tokens(tmp_path / "tokens.yaml", *entries, entry("blocked", BLOCKED, ["read"], ["none/*"]))
    authorizer = InTurn([TokenFile(path, SystemClock()), TokenReviewAuthorizer(reviews, clock)])
    async with git_service(cluster, authorizer, tmp_path, failures) as running:
        yield running


@pytest.mark.parametrize(("token", "asked"), [(WRITER, 0), (ACCOUNT, 3)], ids=["a token of the file", "a token of the cluster"])
async def test_clone_and_push(service: GitService, reviews: ScriptedReviews, token: str, asked: int) -> None:
    """Who may fetch and push does, with a token as password; the API server is asked once about each thing, and never about tokens of the file."""
    work = await service.clone(token, "work")
    pushed = await service.push(token, work)
    assert pushed.status == 0, pushed.err
    again = await service.clone(token, "again")
    assert (again / "prompt.txt").read_text() == "change"
    assert len(reviews.asked) == asked


async def test_a_bearer_token(service: GitService) -> None:
    """Git may send the token as bearer token."""
    run = await service.git("-c", f"http.extraHeader=Authorization: Bearer {ACCOUNT}", "ls-remote", service.url(), check=False)
    assert "refs/heads/main" in run.out


async def test_a_reader_does_not_push(service: GitService) -> None:
    """A push without the scope is refused before a byte of it is sent, and git says why."""
    work = await service.clone(READER, "work")
    pushed = await service.push(READER, work)
    assert pushed.status != 0
    assert "token 'reader' is not good for it" in pushed.err
    assert "403" in pushed.err


async def test_what_the_file_says_holds(service: GitService, reviews: ScriptedReviews) -> None:
    """A token that the file knows and does not let in is refused, whatever the API server would say."""
    run = await service.fetch(BLOCKED)
    assert "403" in run.err
    assert reviews.asked == []


async def test_strangers_and_projects(service: GitService) -> None:
    """With a wrong token, or without a right, git says the same of a project that exists and of one that does not."""
    wrong = [(await service.fetch("wrong", name)).err.replace(name, "X") for name in ("support", "nothing")]
    without = [(await service.fetch(BLOCKED, name)).err.replace(name, "X") for name in ("support", "nothing")]
    assert wrong[0] == wrong[1]
    assert without[0] == without[1]
    assert "Authentication failed" in wrong[0]


async def test_no_decision(service: GitService, reviews: ScriptedReviews) -> None:
    """Where the API server does not answer, git is told 503; tokens of the file work as ever."""
    reviews.error = StoreUnavailable("cannot create TokenReview: the API server does not answer")
    run = await service.fetch(ACCOUNT)
    assert "503" in run.err
    assert (await service.fetch(READER)).status == 0


async def test_too_many_failures(service: GitService) -> None:
    """A client that keeps failing is told 429; one with a token that is known at hand is let in from the same address."""
    runs = [await service.fetch("wrong") for _ in range(4)]
    assert "Authentication failed" in runs[0].err
    assert "429" in runs[-1].err
    assert (await service.fetch(READER)).status == 0


async def test_no_token_is_logged(service: GitService) -> None:
    """Whatever happens to a token, the log holds who it was and never the token."""
    with capture_logs() as logs:
        await service.fetch(f"wrong-{TOKEN}")
        await service.fetch(BLOCKED)
        work = await service.clone(READER, "work")
        await service.push(READER, work)
    text = repr(logs)
    assert {entry["event"] for entry in logs} >= {"login failed", "action refused"}
    assert "'reader'" in text
    assert TOKEN not in text
