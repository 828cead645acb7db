"""Who gets to which repository: what opens it, what a mirror takes, and what a stranger can find out."""

from collections.abc import Mapping

import pytest

from arena.authorization.entrance import Entrance
from arena.authorization.errors import DecisionUnavailable, NotAllowed
from arena.authorization.failures import Failures
from arena.authorization.git_access import GitAccess
from arena.authorization.local_token import LocalToken
from arena.authorization.port import Action, Caller, Credential
from foundation.clock import FakeClock
from foundation.errors import ArenaError
from gitops.content import ProjectKey
from gitops.errors import AuthorizerUnavailable, Forbidden, TooManyFailures, Unauthenticated, UnknownProject
from reconcile.cluster.port import ARENA_PROJECT
from reconcile.cluster.sqlite import SqliteCluster
from tests.authorization.headers import SOURCE, TOKEN, basic, bearer


class Refusing:
    """An authorizer that refuses everything with one error, and notes what it is asked."""

    def __init__(self, error: ArenaError) -> None:
        self.error = error
        self.asked: list[Action] = []

    async def authorize(self, credential: Credential, action: Action) -> Caller:
        """Refuse."""
        del credential
        self.asked.append(action)
        raise self.error


async def refusal(access: GitAccess, headers: Mapping[str, str], project: str, *, write: bool = False) -> ArenaError:
    """Return what a request is refused with."""
    with pytest.raises(ArenaError) as caught:
        await access(headers, "team", project, write=write, source=SOURCE)
    return caught.value


async def add_project(cluster: SqliteCluster, spec: Mapping[str, object], status: Mapping[str, str] | None = None) -> None:
    """Store project team/p."""
    document = {"apiVersion": ARENA_PROJECT.api_version, "kind": "ArenaProject", "metadata": {"name": "p", "namespace": "team"}}
    await cluster.create({**document, "spec": dict(spec)})
    if status:
        await cluster.patch_status(ARENA_PROJECT, "team", "p", dict(status))


@pytest.mark.parametrize(
    ("headers", "opens"),
    [
        pytest.param(bearer(TOKEN), True, id="a bearer token"),
        pytest.param({"authorization": f"bearer  {TOKEN} "}, True, id="its scheme in any case, with spaces"),
        pytest.param(basic(TOKEN), True, id="a password"),
        pytest.param(basic(TOKEN, user=""), True, id="a password of any user"),
        pytest.param({}, False, id="nothing"),
        pytest.param(bearer(TOKEN[:-1]), False, id="a part of it"),
        pytest.param(bearer(TOKEN + "0"), False, id="more than it"),
    ],
)
async def test_what_opens_a_repository(cluster: SqliteCluster, entrance: Entrance, headers: dict[str, str], *, opens: bool) -> None:
    """Git takes the token as password or as bearer token; only then it is said that there is no such project."""
    error = await refusal(GitAccess(cluster, entrance), headers, "none")
    assert type(error) is (UnknownProject if opens else Unauthenticated)


@pytest.mark.parametrize(
    ("status", "write", "error"),
    [
        pytest.param({"repositoryURL": "https://git.example.com/p.git"}, False, None, id="a fetch of what is mirrored"),
        pytest.param({"repositoryURL": "https://git.example.com/old.git"}, False, UnknownProject, id="a fetch while the mirror is another remote's"),
        pytest.param({}, False, UnknownProject, id="a fetch before the first one of ours"),
        pytest.param({"repositoryURL": "https://git.example.com/p.git"}, True, Forbidden, id="a push"),
    ],
)
async def test_a_mirror_is_read_only(
    cluster: SqliteCluster, entrance: Entrance, status: dict[str, str], error: type[Exception] | None, *, write: bool
) -> None:
    """The mirror of an external project is served for fetch, once it is of the remote that the spec names, and takes no push, its discovery included."""
    await add_project(cluster, {"external": {"url": "https://git.example.com/p.git"}}, status)
    access = GitAccess(cluster, entrance)
    if error is None:
        assert (await access(basic(TOKEN), "team", "p", write=write, source=SOURCE)).project == ProjectKey("team", "p")
        return
    assert type(await refusal(access, basic(TOKEN), "p", write=write)) is error


async def test_an_empty_token_opens_nothing(cluster: SqliteCluster, clock: FakeClock) -> None:
    """An installation without a token is closed, not open."""
    access = GitAccess(cluster, Entrance(LocalToken(""), Failures(clock)))
    for headers in ({}, bearer(""), basic(""), {"authorization": "Basic "}):
        assert type(await refusal(access, headers, "none", write=True)) is Unauthenticated


@pytest.mark.parametrize("write", [False, True], ids=["fetch", "push"])
@pytest.mark.parametrize("headers", [{}, bearer("wrong"), basic("wrong")], ids=["no token", "a wrong token", "a wrong password"])
async def test_strangers_learn_nothing(cluster: SqliteCluster, entrance: Entrance, headers: dict[str, str], *, write: bool) -> None:
    """A stranger is answered the same, word for word, whether or not the project exists."""
    await add_project(cluster, {"hosted": {}})
    access = GitAccess(cluster, entrance)
    there, nowhere = await refusal(access, headers, "p", write=write), await refusal(access, headers, "none", write=write)
    assert (type(there), there.message, there.hint) == (type(nowhere), nowhere.message, nowhere.hint)


@pytest.mark.parametrize(("write", "verb"), [(False, "get"), (True, "update")], ids=["fetch", "push"])
async def test_callers_without_a_right_learn_nothing(cluster: SqliteCluster, clock: FakeClock, verb: str, *, write: bool) -> None:
    """A caller who may not do this is refused before anybody looks for the project, by the verb that it would take."""
    authorizer = Refusing(NotAllowed("cannot do this"))
    await cluster.close()
    assert type(await refusal(GitAccess(cluster, Entrance(authorizer, Failures(clock))), bearer(TOKEN), "p", write=write)) is Forbidden
    assert authorizer.asked == [Action(verb, "arenaprojects", "team", "p", "git")]


async def test_no_decision_is_no_entry(cluster: SqliteCluster, clock: FakeClock) -> None:
    """Where nobody can decide, git hears that the service is not available, and nothing of why."""
    await add_project(cluster, {"hosted": {}})
    error = await refusal(GitAccess(cluster, Entrance(Refusing(DecisionUnavailable("cannot reach 10.0.0.1")), Failures(clock))), basic(TOKEN), "p")
    assert type(error) is AuthorizerUnavailable
    assert "10.0.0.1" not in error.message


async def test_a_store_that_does_not_answer(cluster: SqliteCluster, entrance: Entrance) -> None:
    """A project that cannot be looked up now is not said to be unknown."""
    await cluster.close()
    assert type(await refusal(GitAccess(cluster, entrance), basic(TOKEN), "p")) is AuthorizerUnavailable


async def test_too_many_failures(cluster: SqliteCluster, entrance: Entrance) -> None:
    """Logins that keep failing are told to wait; the token itself still opens."""
    access = GitAccess(cluster, entrance)
    errors = [await refusal(access, basic("wrong"), "p") for _ in range(21)]
    assert [type(error) for error in errors] == [Unauthenticated] * 20 + [TooManyFailures]
    assert type(await refusal(access, basic(TOKEN), "p")) is UnknownProject
