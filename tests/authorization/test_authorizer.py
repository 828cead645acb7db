"""The contract of the Authorizer port, on every adapter: the local token, a token file, and reviews, scripted and by a real API server."""

import traceback
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from arena.authorization.errors import AuthorizationError, NotAllowed, NotAuthenticated
from arena.authorization.port import Action, Credential, fetch, push
from foundation.clock import SystemClock
from tests.apiserver.server_fixture import REAL
from tests.authorization.adapters import HOME, Adapter, by_file, by_scripted_reviews, local, on_server
from tests.authorization.headers import SOURCE, TOKEN

ACTIONS = {
    "fetch": fetch(HOME, "support"),
    "push": push(HOME, "support"),
    "fetch elsewhere": fetch("n1", "support"),
    "push elsewhere": push("n1", "support"),
    "fetch in a namespace whose name begins alike": fetch(f"{HOME}0", "support"),
    "read a pod's log": Action("get", "pods", HOME, "nightly-1-worker-0", "log", ""),
    "read a pod": Action("get", "pods", HOME, "nightly-1-worker-0", "", ""),
    "read a run": Action("get", "arenaruns", HOME, "nightly-1"),
    "read the project's object": Action("get", "arenaprojects", HOME, "support"),
    "change the project's object": Action("update", "arenaprojects", HOME, "support"),
    "delete the repository": Action("delete", "arenaprojects", HOME, "support", "git"),
    "read a secret": Action("get", "secrets", HOME, "keys", "", ""),
}
MAY = {
    "owner": set(ACTIONS),
    "reader": {"fetch"},
    "writer": {"fetch", "push"},
    "pusher": {"push"},
    "logs": {"read a pod's log"},
    "nobody": set[str](),
}


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["local token", "token file", "scripted reviews", pytest.param("API server", marks=REAL)]
)
async def adapter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Adapter]:
    """Give each adapter in turn."""
    match request.param:
        case "local token":
            yield local()
        case "token file":
            yield await by_file(tmp_path_factory.mktemp("tokens") / "tokens.yaml", SystemClock())
        case "scripted reviews":
            yield by_scripted_reviews(SystemClock())
        case _:
            async with on_server(request.getfixturevalue("control_plane")) as found:
                yield found


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def outcome(adapter: Adapter, credential: Credential, action: Action) -> str:
    """Return a caller's name, or the error's."""
    try:
        return (await adapter.authorizer.authorize(credential, action)).name
    except AuthorizationError as error:
        return type(error).__name__


@pytest.mark.parametrize("name", ACTIONS)
async def test_a_caller_may_what_the_role_says(adapter: Adapter, name: str) -> None:
    """A known caller may do exactly what was granted, whether or not the object exists; everything else is NotAllowed."""
    for role, token in adapter.tokens.items():
        found = await outcome(adapter, Credential(token, source=SOURCE), ACTIONS[name])
        assert (found != NotAllowed.__name__) is (name in MAY[role]), f"{role}: {found}"
        assert found != NotAuthenticated.__name__, role


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(TOKEN[:-1], id="too short"),
        pytest.param("x", id="one letter"),
        pytest.param("0" * 64, id="a digest"),
        pytest.param("a.b.c", id="the form of a web token"),
        pytest.param("../../etc/passwd", id="a path"),
        pytest.param("*", id="a wildcard"),
        pytest.param("t" * 12_000, id="very long"),
    ],
)
async def test_nobody_knows_it(adapter: Adapter, token: str) -> None:
    """A token that is none is NotAuthenticated, for every action, so that another authorizer may be asked."""
    for action in ACTIONS.values():
        assert await outcome(adapter, Credential(token), action) == NotAuthenticated.__name__


async def test_almost_a_token(adapter: Adapter) -> None:
    """A token with a character more, less or otherwise is another token."""
    for role, token in adapter.tokens.items():
        for other in (token[:-1], f"{token}x", f"x{token}", token.swapcase(), f"{token[:-2]}{token[-1]}{token[-2]}x"):
            assert await outcome(adapter, Credential(other), ACTIONS["fetch"]) == NotAuthenticated.__name__, role


async def test_the_way_it_came_does_not_matter(adapter: Adapter) -> None:
    """A token is good for the same as bearer token and as password."""
    for token in adapter.tokens.values():
        for action in ACTIONS.values():
            assert await outcome(adapter, Credential(token, "basic"), action) == await outcome(adapter, Credential(token), action)


async def test_suspicion_concerns_strangers(adapter: Adapter) -> None:
    """From an address where many logins have failed, a token that is known works as ever, and one that is not stays unknown."""
    for token in adapter.tokens.values():
        known = Credential(token, source=SOURCE)
        for action in ACTIONS.values():
            before = await outcome(adapter, known, action)
            assert await outcome(adapter, replace(known, suspect=True), action) == before
    assert await outcome(adapter, Credential(f"{TOKEN}-unknown", suspect=True), ACTIONS["fetch"]) == NotAuthenticated.__name__


async def test_callers_have_names(adapter: Adapter) -> None:
    """A caller's name says in a log who it is."""
    names = {await outcome(adapter, Credential(token), ACTIONS[next(iter(MAY[role]))]) for role, token in adapter.tokens.items() if MAY[role]}
    assert len(names) == len([role for role in adapter.tokens if MAY[role]])
    assert all(names)


async def test_no_token_is_ever_said(adapter: Adapter) -> None:
    """Neither errors with all their causes, nor log lines, nor the names of callers hold a token, known or not."""
    said = list[str]()
    tokens = [*adapter.tokens.values(), f"stranger-{TOKEN}"]
    with capture_logs() as logs:
        for token in tokens:
            for action in ACTIONS.values():
                try:
                    said.append(repr(await adapter.authorizer.authorize(Credential(token), action)))
                except AuthorizationError as error:
                    said += [*traceback.format_exception(error), error.hint, repr(vars(error))]
    text = "\n".join([*said, repr(logs)])
    assert not [token for token in tokens if token in text]
