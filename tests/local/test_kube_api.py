"""The store over HTTP: paths, verbs, Status errors, warnings, watches."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from arena.cli.client import warning_text
from arena.local.json_body import MAX_BODY_BYTES
from arena.local.kube_api import kube_api, warning_header
from foundation.clock import SystemClock
from reconcile.cluster.port import ARENA_JOB
from reconcile.cluster.sqlite import SqliteCluster, admission_warnings
from reconcile.kinds.admission import admit, admit_status

DEADLINE_S = 20
JOBS = f"/apis/{ARENA_JOB.api_version}/namespaces/team/arenajobs"


class Answer:
    """What the API answered."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.status = status
        self.warnings = [warning_text(value.decode("latin-1")) for name, value in headers if name == b"warning"]
        self.json: Any = json.loads(body) if body.startswith(b"{") and b"\n{" not in body else None
        self.lines = [json.loads(line) for line in body.splitlines()]


class Api:
    """A caller of the ASGI application, without a network."""

    def __init__(self) -> None:
        self.cluster = SqliteCluster(":memory:", SystemClock(), admit=admit, admit_status=admit_status)
        self.stopping = asyncio.Event()
        self._sent, self._sending = b"", asyncio.Condition()
        self._app = kube_api(self.cluster, warnings=admission_warnings, stopping=self.stopping)

    async def seen(self, words: bytes) -> None:
        """Wait until some answer had these words."""
        async with asyncio.timeout(DEADLINE_S), self._sending:
            await self._sending.wait_for(lambda: words in self._sent)

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """Send one request and return the whole answer."""
        sent: list[dict[str, Any]] = []
        route, _, query = path.partition("?")
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()

        incoming = [{"type": "http.request", "body": data, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if not incoming:
                await asyncio.Event().wait()
            return incoming.pop()

        async def send(message: Any) -> None:
            sent.append(message)
            async with self._sending:
                self._sent += message.get("body", b"")
                self._sending.notify_all()

        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        given = {"content-type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
        scope = {
            "type": "http",
            "method": method,
            "path": route,
            "raw_path": route.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "root_path": "",
            "scheme": "http",
            "server": ("localhost", 80),
            "client": ("localhost", 1),
            "http_version": "1.1",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
        }
        async with asyncio.timeout(DEADLINE_S):
            await self._app(scope, receive, send)
        return Answer(sent[0]["status"], sent[0]["headers"], b"".join(message.get("body", b"") for message in sent[1:]))


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """Give an API over a store in memory."""
    found = Api()
    yield found
    await found.cluster.close()


def job(name: str = "eval", **spec: Any) -> dict[str, Any]:
    """Return the body of an ArenaJob."""
    return {"metadata": {"name": name, "labels": {"team": name}}, "spec": {"sourceRef": {"name": "support"}, **spec}}


async def test_object_lives_at_its_path(api: Api) -> None:
    """POST creates, GET reads, PATCH merges, PUT replaces, DELETE removes; what the path says need not be said again."""
    created = await api.ask("POST", JOBS, job())
    assert (created.status, created.json["kind"], created.json["metadata"]["namespace"]) == (201, "ArenaJob", "team")
    assert (await api.ask("GET", f"{JOBS}/eval")).json == created.json
    patched = await api.ask("PATCH", f"{JOBS}/eval", {"spec": {"trials": 3}})
    assert patched.json["spec"]["trials"] == 3
    replaced = await api.ask("PUT", f"{JOBS}/eval", {**patched.json, "spec": {**patched.json["spec"], "trials": 4}})
    assert replaced.json["spec"]["trials"] == 4
    assert (await api.ask("DELETE", f"{JOBS}/eval")).json["status"] == "Success"
    assert (await api.ask("GET", f"{JOBS}/eval")).status == 404


async def test_list_by_labels(api: Api) -> None:
    """A list is of one namespace or of all, and a selector may be of any form that Kubernetes has."""
    for name in ("a", "b"):
        await api.ask("POST", JOBS, job(name))
    listing = await api.ask("GET", f"/apis/{ARENA_JOB.api_version}/arenajobs?labelSelector=team!=a")
    assert (listing.json["kind"], [item["metadata"]["name"] for item in listing.json["items"]]) == ("ArenaJobList", ["b"])
    assert (await api.ask("GET", JOBS.replace("team", "other"))).json["items"] == []


REFUSALS = [
    pytest.param("GET", f"{JOBS}/none", None, 404, "NotFound", id="an object that does not exist"),
    pytest.param("GET", "/apis/apps/v1/deployments", None, 404, "NotFound", id="a kind that is not served"),
    pytest.param("GET", f"{JOBS}/eval/scale", None, 404, "NotFound", id="a subresource that is not served"),
    pytest.param("POST", JOBS, job(trails=2), 422, "Invalid", id="an unknown field"),
    pytest.param("POST", JOBS, b"{", 422, "Invalid", id="no JSON"),
    pytest.param("POST", JOBS, b"[]", 422, "Invalid", id="no object"),
    pytest.param("POST", JOBS, {**job(), "kind": "ArenaRun"}, 422, "Invalid", id="another kind than the path's"),
    pytest.param("POST", JOBS, {"metadata": {"name": "a", "namespace": "other"}}, 422, "Invalid", id="another namespace than the path's"),
    pytest.param("PUT", f"{JOBS}/eval", job("other"), 422, "Invalid", id="another name than the path's"),
    pytest.param("POST", f"{JOBS}/eval", job(), 405, "MethodNotAllowed", id="a verb that is not allowed there"),
    pytest.param("GET", f"{JOBS}?fieldSelector=a", None, 400, "BadRequest", id="a parameter that nobody would heed"),
    pytest.param("POST", JOBS, b'{"metadata": {"name": "\\ud800"}}', 422, "Invalid", id="half a character"),
    pytest.param("POST", JOBS, b'{"metadata": ' + b"[" * 101 + b"]" * 101 + b"}", 422, "Invalid", id="nested a little too deeply"),
    pytest.param("POST", JOBS, b"[" * 100_000 + b"]" * 100_000, 422, "Invalid", id="nested deeper than any stack"),
    pytest.param("POST", JOBS, b" " * (MAX_BODY_BYTES + 1), 422, "Invalid", id="too large a body"),
    pytest.param("DELETE", f"{JOBS}/eval", {"preconditions": ["uid"]}, 422, "Invalid", id="preconditions that are no object"),
    pytest.param("DELETE", f"{JOBS}/eval", {"propagationPolicy": "Orphan"}, 400, "BadRequest", id="a cascade that is not built"),
]


@pytest.mark.parametrize(("method", "path", "body", "code", "reason"), REFUSALS)
async def test_refusal_is_a_status(api: Api, method: str, path: str, body: object, code: int, reason: str) -> None:
    """What is refused is a Kubernetes Status with code and reason, and changes nothing."""
    answer = await api.ask(method, path, body)
    assert (answer.status, answer.json["kind"], answer.json["reason"], answer.json["code"]) == (code, "Status", reason, code)
    assert answer.json["message"]
    assert (await api.ask("GET", JOBS)).json["items"] == []


async def test_stale_version_conflicts(api: Api) -> None:
    """A replacement of an older version is a 409; deleting by a uid that is another's, too."""
    created = (await api.ask("POST", JOBS, job())).json
    await api.ask("PATCH", f"{JOBS}/eval", {"spec": {"trials": 2}})
    assert (await api.ask("PUT", f"{JOBS}/eval", created)).json["reason"] == "Conflict"
    assert (await api.ask("DELETE", f"{JOBS}/eval", {"preconditions": {"uid": "another"}})).json["reason"] == "Conflict"
    assert (await api.ask("POST", JOBS, job())).json["reason"] == "AlreadyExists"


async def test_other_patch_types_are_refused_by_name(api: Api) -> None:
    """A patch type that is not built says which one is."""
    await api.ask("POST", JOBS, job())
    answer = await api.ask("PATCH", f"{JOBS}/eval", {}, content_type="application/strategic-merge-patch+json")
    assert answer.status == 415
    assert "application/merge-patch+json" in answer.json["message"]


async def test_dry_run_changes_nothing(api: Api) -> None:
    """A dry run answers as the real one would, admission included."""
    assert (await api.ask("POST", f"{JOBS}?dryRun=All", job())).status == 201
    assert (await api.ask("POST", f"{JOBS}?dryRun=All", job(trails=1))).status == 422
    assert (await api.ask("GET", JOBS)).json["items"] == []


async def test_admission_warnings_are_headers(api: Api) -> None:
    """What admission warns of comes as Warning headers, as from a Kubernetes API server."""
    answer = await api.ask("POST", JOBS, job(baseline={"ref": "main"}))
    assert answer.status == 201
    assert answer.warnings == ["spec.baseline is not supported yet (NotSupported)"]
    assert (await api.ask("POST", JOBS, job("plain"))).warnings == []


@pytest.mark.parametrize("text", ['a "quoted" word', "a back\\slash", "naïve – 你好", "ends with \\"], ids=["quotes", "backslash", "unicode", "last"])
def test_warning_header_round_trip(text: str) -> None:
    """A warning is read as it was written, whatever its characters."""
    assert warning_text(warning_header(text).decode("latin-1")) == text


async def test_watch_ends_when_the_server_stops(api: Api) -> None:
    """A watch gives a line a change from its version on, and ends, without an error, when the server stops."""
    version = (await api.ask("GET", JOBS)).json["metadata"]["resourceVersion"]
    watching = asyncio.create_task(api.ask("GET", f"{JOBS}?watch=true&resourceVersion={version}&labelSelector=team=a"))
    for name in ("a", "b"):
        await api.ask("POST", JOBS, job(name))
    await api.ask("DELETE", f"{JOBS}/a")
    await api.seen(b"DELETED")
    api.stopping.set()
    assert [(line["type"], line["object"]["metadata"]["name"]) for line in (await watching).lines] == [("ADDED", "a"), ("DELETED", "a")]


async def test_watch_from_a_version_that_is_gone(api: Api) -> None:
    """A watch from a version that the log does not have ends with an ERROR event that holds a Status: list again."""
    answer = await api.ask("GET", f"{JOBS}?watch=true&resourceVersion=999999")
    assert [(line["type"], line["object"]["reason"], line["object"]["code"]) for line in answer.lines] == [("ERROR", "Expired", 410)]


@pytest.mark.parametrize("version", ["-1", "abc", "9" * 30])
async def test_watch_from_a_version_that_never_was(api: Api, version: str) -> None:
    """A watch from what no store gives as a version ends with an ERROR event that says so."""
    answer = await api.ask("GET", f"{JOBS}?watch=true&resourceVersion={version}")
    assert [(line["type"], line["object"]["code"]) for line in answer.lines] == [("ERROR", 422)]
