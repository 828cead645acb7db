"""The guard of the Kubernetes-shaped API: no path is open, and a path is the action that the authorizer is asked about."""

from collections.abc import MutableMapping
from typing import Any

import pytest

from arena.app import ArenaApp
from arena.authorization.api_access import ApiAccess, requested
from arena.authorization.entrance import Entrance
from arena.authorization.errors import DecisionUnavailable, NotAllowed
from arena.authorization.failures import Failures
from arena.authorization.port import Action, Caller, Credential
from foundation.clock import FakeClock
from tests.authorization.headers import SOURCE, TOKEN, basic, bearer

RUN = "/apis/omnia.altairalabs.ai/v1alpha1/namespaces/team/arenaruns/nightly-1"


class Answering:
    """An authorizer that says what a test tells it to, and notes what it is asked."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[Action] = []
        self._error = error

    async def authorize(self, credential: Credential, action: Action) -> Caller:
        """Answer."""
        del credential
        self.asked.append(action)
        if self._error is not None:
            raise self._error
        return Caller("somebody")


async def answer(entrance: Entrance, method: str, path: str, headers: dict[str, str], query: str = "") -> MutableMapping[str, Any]:
    """Return how a request's answer begins; 299 says that it came through to the API."""

    async def reached(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": 299, "headers": []})

    async def nobody(*_: object) -> None:
        raise AssertionError

    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    app = ArenaApp(git=nobody, hooks=nobody, kube=reached, access=ApiAccess(entrance))
    pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": pairs, "query_string": query.encode(), "client": (SOURCE, 1)}
    await app(scope, receive, send)
    return sent[0]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/api/v1/secrets", "/apis/batch/v1/namespaces/a/jobs", "/apis/", "/api//", "/apis/x/../../healthz", RUN])
async def test_no_path_of_the_api_is_open(entrance: Entrance, method: str, path: str) -> None:
    """Whatever the path below the API and the method: without a bearer token the answer is 401, and nothing behind it hears of the request.

    A password, which browsers send of themselves, is none.
    """
    assert (await answer(entrance, method, path, {}))["status"] == 401
    assert (await answer(entrance, method, path, basic(TOKEN)))["status"] == 401
    assert (await answer(entrance, method, path, bearer(TOKEN)))["status"] == 299


@pytest.mark.parametrize(
    ("error", "status"),
    [
        pytest.param(NotAllowed("cannot get arenaruns: 'ci' may not"), 403, id="a caller who may not"),
        pytest.param(DecisionUnavailable("cannot ask"), 503, id="nobody can say"),
    ],
)
async def test_refusals(clock: FakeClock, error: Exception, status: int) -> None:
    """A caller who may not do this, and a decision that cannot be had, each have their status, and nothing behind the guard hears of the request."""
    assert (await answer(Entrance(Answering(error), Failures(clock)), "GET", RUN, bearer(TOKEN)))["status"] == status


async def test_too_many_failures(entrance: Entrance) -> None:
    """Logins that keep failing are answered 429 with the time to wait; the token itself still opens."""
    answers = [await answer(entrance, "GET", RUN, bearer("wrong")) for _ in range(21)]
    assert [each["status"] for each in answers] == [401] * 20 + [429]
    assert dict(answers[-1]["headers"])[b"retry-after"] == b"2"
    assert (await answer(entrance, "GET", RUN, bearer(TOKEN)))["status"] == 299


@pytest.mark.parametrize(
    ("method", "path", "query", "action"),
    [
        pytest.param("GET", RUN, "", Action("get", "arenaruns", "team", "nightly-1"), id="one run, as whoever reads its logs is asked first"),
        pytest.param("GET", "/api/v1/namespaces/team/pods/w-0/log", "", Action("get", "pods", "team", "w-0", "log", ""), id="a pod's log"),
        pytest.param("PATCH", f"{RUN}/status", "", Action("patch", "arenaruns", "team", "nightly-1", "status"), id="a part of an object"),
        pytest.param("PUT", RUN, "", Action("update", "arenaruns", "team", "nightly-1"), id="an update"),
        pytest.param("DELETE", RUN, "", Action("delete", "arenaruns", "team", "nightly-1"), id="one deletion"),
        pytest.param("GET", "/api/v1/namespaces/team/pods", "", Action("list", "pods", "team", group=""), id="a collection"),
        pytest.param("GET", "/api/v1/pods", "watch=1", Action("watch", "pods", group=""), id="a watch over all namespaces"),
        pytest.param("POST", "/api/v1/namespaces", "", Action("create", "namespaces", group=""), id="a new namespace"),
        pytest.param("GET", "/api/v1/namespaces/team", "", Action("get", "namespaces", "", "team", group=""), id="a namespace"),
        pytest.param("DELETE", "/apis/batch/v1/namespaces/a/jobs", "", Action("deletecollection", "jobs", "a", group="batch"), id="all of a kind"),
        pytest.param("GET", RUN.replace("/team", "//team/"), "", Action("get", "arenaruns", "team", "nightly-1"), id="slashes too many"),
        pytest.param("GET", "/apis/", "", Action("list", "*", group=""), id="no resource at all"),
        pytest.param("OPTIONS", RUN, "", Action("options", "arenaruns", "team", "nightly-1"), id="a method that is no verb"),
    ],
)
def test_a_path_is_an_action(method: str, path: str, query: str, action: Action) -> None:
    """A request is what an API server would take it for, so that a role's rules mean the same in both modes."""
    assert requested({"method": method, "path": path, "query_string": query.encode()}) == action


async def test_the_action_is_asked_about(clock: FakeClock) -> None:
    """The authorizer is asked about the request's own action."""
    authorizer = Answering()
    await answer(Entrance(authorizer, Failures(clock)), "GET", RUN, bearer(TOKEN))
    assert authorizer.asked == [Action("get", "arenaruns", "team", "nightly-1")]
