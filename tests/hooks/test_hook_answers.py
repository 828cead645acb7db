"""What each delivery is answered, and what a stranger can learn from it: nothing."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from foundation.clock import FakeClock
from hooks.hosts import HOSTS
from hooks.receiver import Receiver
from reconcile.cluster.port import ARENA_PROJECT, Object, ResourceKind
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.errors import StoreUnavailable
from tests.hooks.sender import FLAVOURS, FORM, PROJECT, TEAM, Hooks, host_of, project, push, secret_of

URL = "https://git.example.com/team/prompts.git"
PATH = f"/hooks/github/{TEAM}/{PROJECT}"
Prepare = Callable[[Hooks], Awaitable[object]]


async def _nothing(_: Hooks) -> None:
    """Leave the store empty."""


async def _another_secret(hooks: Hooks) -> None:
    await hooks.subscribe("github", URL, secret="another")


async def _another_host(hooks: Hooks) -> None:
    await hooks.subscribe("gitea", URL)


async def _no_webhook(hooks: Hooks) -> None:
    await hooks.cluster.create(project(TEAM, PROJECT, {"external": {"url": URL}}))


async def _hosted(hooks: Hooks) -> None:
    await hooks.cluster.create(project(TEAM, PROJECT, {"hosted": {}}))


async def _no_secret(hooks: Hooks) -> None:
    await hooks.cluster.create(project(TEAM, PROJECT, _external()))


async def _no_key(hooks: Hooks) -> None:
    await _no_secret(hooks)
    await hooks.put_secret(TEAM, "hook", {"other": "s"})


async def _empty_secret(hooks: Hooks) -> None:
    await _no_secret(hooks)
    await hooks.put_secret(TEAM, "hook", {"secret": ""})


async def _secret_of_a_line_end(hooks: Hooks) -> None:
    await _no_secret(hooks)
    await hooks.put_secret(TEAM, "hook", {"secret": "\n"})


def _external() -> dict[str, Any]:
    return {"external": {"url": URL, "webhook": {"host": "github", "secretRef": {"name": "hook", "key": "secret"}}}}


STRANGERS = [
    pytest.param(_nothing, id="no such project"),
    pytest.param(_another_secret, id="a wrong secret"),
    pytest.param(_another_host, id="a project of another host"),
    pytest.param(_no_webhook, id="a project without a webhook"),
    pytest.param(_hosted, id="a hosted project"),
    pytest.param(_no_secret, id="a project whose Secret is missing"),
    pytest.param(_no_key, id="a project whose Secret has no such key"),
    pytest.param(_empty_secret, id="a project whose secret is empty"),
    pytest.param(_secret_of_a_line_end, id="a project whose secret is a line's end"),
]


@pytest.mark.parametrize("path", [PATH, "/hooks/github"], ids=["the project's address", "the host's address"])
@pytest.mark.parametrize("prepare", STRANGERS)
@pytest.mark.parametrize("secret", ["guessed", "\n"], ids=["guessed", "a line's end"])
async def test_one_answer_for_whoever_cannot_prove(hooks: Hooks, prepare: Prepare, secret: str, path: str) -> None:
    """Whether the project exists, and what is wrong with it or the secret, does not change a byte of the answer."""
    reference = await hooks.deliver("github", push("github", URL)[0], secret=secret, path=path.replace(PROJECT, "nobody"))
    await prepare(hooks)
    answer = await hooks.deliver("github", push("github", URL)[0], secret=secret, path=path)
    assert answer.status == 401
    assert answer == reference


class CountingCluster(SqliteCluster):
    """A store that counts the objects that are asked for."""

    reads = 0

    async def get(self, kind: ResourceKind, namespace: str | None, name: str) -> Object:
        """Count and return."""
        self.reads += 1
        return await super().get(kind, namespace, name)


@pytest.mark.parametrize("prepare", STRANGERS)
async def test_one_cost_for_whoever_cannot_prove(hooks: Hooks, prepare: Prepare) -> None:
    """An answer takes the same steps for a project that exists and one that does not, so its time tells nothing."""
    counting = CountingCluster(":memory:", FakeClock())
    await hooks.cluster.close()
    hooks.cluster, hooks.receiver = counting, Receiver(counting, hooks.clock)
    await prepare(hooks)
    before = counting.reads
    await hooks.deliver("github", push("github", URL)[0], secret="guessed")
    assert counting.reads - before == 2


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_whoever_has_no_proof_at_all(hooks: Hooks, flavour: str) -> None:
    """Every host refuses what bears no proof, at the project's address and at the host's."""
    await hooks.subscribe(host_of(flavour), URL, secret=secret_of(flavour))
    for path in (f"/hooks/{host_of(flavour)}/{TEAM}/{PROJECT}", f"/hooks/{host_of(flavour)}"):
        answer = await hooks.post(path, json.dumps(push(flavour, URL)[0]).encode())
        assert (answer.status, await hooks.stamp()) == (401, None)
        assert "www-authenticate" in answer.headers


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"", "is not JSON", id="nothing"),
        pytest.param(b"{", "is not JSON", id="cut off"),
        pytest.param(b"[]", "is not a JSON object", id="a list"),
        pytest.param(b'"text"', "is not a JSON object", id="a text"),
        pytest.param(b"\xff\xfe{}", "is not UTF-8 text", id="no UTF-8"),
        pytest.param('{"a": 1}'.encode("utf-16"), "is not UTF-8 text", id="UTF-16"),
        pytest.param(b'{"a": NaN}', "is not JSON", id="not a number"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", "is not JSON", id="a number of 5,000 digits"),
        pytest.param(b'{"a": ' * 100_000, "is nested too deeply", id="objects in objects"),
        pytest.param(b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "is nested too deeply", id="lists in lists"),
        pytest.param(b'{"a": "' + b"\x00" + b'"}', "is not JSON", id="a control character"),
    ],
)
async def test_a_body_that_is_no_payload(hooks: Hooks, body: bytes, said: str) -> None:
    """What cannot be read is answered 400 with the cause, and only to whoever has proven himself."""
    await hooks.subscribe("github", URL)
    assert (await hooks.deliver("github", body, secret="wrong")).status == 401
    answer = await hooks.deliver("github", body)
    assert answer.status == 400
    assert said in answer.text


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({}, id="empty"),
        pytest.param({"repository": None}, id="nothing there"),
        pytest.param({"repository": {"clone_url": 7}}, id="a number for a URL"),
        pytest.param({"repository": {"clone_url": {"clone_url": URL}}}, id="an object for a URL"),
        pytest.param({"repository": [{"clone_url": URL}]}, id="a list for an object"),
        pytest.param({"repository": URL}, id="a text for an object"),
        pytest.param({"repository": {"clone_url": "\ud800"}}, id="half a character"),
    ],
)
async def test_a_push_without_a_repository(hooks: Hooks, payload: dict[str, Any]) -> None:
    """A proven push that names no repository in the right place is 400 with the remedy, whatever stands there instead."""
    await hooks.subscribe("github", URL)
    answer = await hooks.deliver("github", payload)
    assert answer.status == 400
    assert await hooks.stamp() is None


@pytest.mark.parametrize(
    ("kind", "headers", "status"),
    [
        pytest.param("application/json; charset=utf-8", {}, 202, id="a parameter"),
        pytest.param("APPLICATION/JSON", {}, 202, id="capitals"),
        pytest.param("application/json", {"content-encoding": "identity"}, 202, id="no encoding, said"),
        pytest.param("application/json", {"content-encoding": "gzip"}, 415, id="gzip"),
        pytest.param("application/json", {"content-encoding": "identity, br"}, 415, id="several encodings"),
        pytest.param("text/plain", {}, 415, id="another type"),
        pytest.param("application/jsonl", {}, 415, id="a type that begins alike"),
        pytest.param("", {}, 415, id="no type"),
        pytest.param("multipart/form-data; boundary=x", {}, 415, id="a form of the other kind"),
        pytest.param(FORM, {}, 400, id="a form that is none"),
    ],
)
async def test_content_types(hooks: Hooks, kind: str, headers: dict[str, str], status: int) -> None:
    """JSON is taken, a form where the host sends forms, and anything else is 415 with what to choose."""
    await hooks.subscribe("github", URL)
    body = json.dumps(push("github", URL)[0]).encode()
    signed = HOSTS["github"].sign(secret_of("github").encode(), body, hooks.clock.now())
    answer = await hooks.post(PATH, body, {**signed, "x-github-event": "push", "content-type": kind, **headers})
    assert answer.status == status
    assert status != 415 or "application/json" in answer.text or "encoding" in answer.text


@pytest.mark.parametrize("flavour", ["gitlab", "bitbucket", "bitbucket-server", "azure-devops", "generic"])
async def test_hosts_without_forms(hooks: Hooks, flavour: str) -> None:
    """A host that never sends a form is not listened to in one."""
    await hooks.subscribe(host_of(flavour), URL)
    assert (await hooks.deliver(flavour, push(flavour, URL)[0], push(flavour, URL)[1], form=True)).status == 415


@pytest.mark.parametrize(
    "body", [b"", b"payload", b"other=1", b"payload=1&payload=2", b"&&&", b"payload=%zz", b"payload=%FF"], ids=lambda body: body.decode() or "empty"
)
async def test_forms_that_are_none(hooks: Hooks, body: bytes) -> None:
    """A form has exactly one payload, of JSON."""
    await hooks.subscribe("github", URL)
    signed = HOSTS["github"].sign(secret_of("github").encode(), body, hooks.clock.now())
    answer = await hooks.post(PATH, body, {**signed, "x-github-event": "push", "content-type": FORM})
    assert answer.status == 400


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
async def test_methods(hooks: Hooks, method: str) -> None:
    """Deliveries are POST; anything else is told so."""
    answer = await hooks.post(PATH, b"", method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "path",
    [
        "/hooks/",
        "/hooks/bitbucket-cloud/team/prompts",
        "/hooks/github/team",
        "/hooks/github/team/prompts/more",
        "/hooks/github/team/../secrets",
        "/hooks/github/Team/prompts",
        "/hooks/github/team/" + "x" * 300,
        "/hooks/github/team/pro\nmpts",
        "/hooks/GITHUB/team/prompts",
    ],
)
async def test_paths_that_are_none(hooks: Hooks, path: str) -> None:
    """A path that no webhook can have is 404, and says which hosts there are."""
    answer = await hooks.post(path, b"{}")
    assert answer.status == 404
    assert "github, gitlab, gitea, bitbucket, bitbucket-server, azure-devops, generic" in answer.text


async def test_a_slash_at_the_end(hooks: Hooks) -> None:
    """A slash too many in the address that was given to the host does no harm."""
    await hooks.subscribe("github", URL)
    assert (await hooks.deliver("github", push("github", URL)[0], path=PATH + "/")).status == 202


async def test_a_suspended_project(hooks: Hooks) -> None:
    """A suspended project takes the request and says that the fetch waits, so that the host does not count a failure."""
    await hooks.subscribe("github", URL, suspend=True)
    answer = await hooks.deliver("github", push("github", URL)[0])
    assert answer.status == 202
    assert answer.json["requested"][0]["suspended"] is True
    assert "spec.suspend" in answer.json["message"]
    assert await hooks.stamp() is not None


async def test_a_ping(hooks: Hooks) -> None:
    """A ping of whoever knows the secret is answered 200 and asks for nothing."""
    await hooks.subscribe("github", URL)
    answer = await hooks.deliver("github", {"zen": "Keep it logically awesome.", "hook_id": 1}, "ping")
    assert (answer.status, answer.json["requested"], await hooks.stamp()) == (200, [], None)


async def test_bitbuckets_test_connection(hooks: Hooks) -> None:
    """Bitbucket Server's test of a connection is a ping."""
    await hooks.subscribe("bitbucket-server", URL)
    assert (await hooks.deliver("bitbucket-server", {"test": True}, "diagnostics:ping")).status == 200


async def test_azures_test_button(hooks: Hooks) -> None:
    """Azure's example of a push, of a subscription that does not exist yet, is a ping although its repository is nobody's."""
    await hooks.subscribe("azure-devops", URL)
    example = push("azure-devops", "https://fabrikam-fiber-inc.visualstudio.com/DefaultCollection/_git/Fabrikam-Fiber-Git")[0]
    assert (await hooks.deliver("azure-devops", {"subscriptionId": "00000000-0000-0000-0000-000000000000", **example})).status == 200
    assert (await hooks.deliver("azure-devops", {"subscriptionId": "03c164c2-8912-4d5e-8009-3707d5f83734", **example})).status == 400


async def test_azures_minimal_details(hooks: Hooks) -> None:
    """A push whose details were left out at the host says which setting brings them back."""
    await hooks.subscribe("azure-devops", URL)
    answer = await hooks.deliver("azure-devops", {"eventType": "git.push", "resource": {"pushId": 1}})
    assert answer.status == 400
    assert "Resource details to send" in answer.text


async def test_a_wrong_repository_says_both(hooks: Hooks) -> None:
    """A proven push to another repository names it and the project's own, in the answer and in an event of the project."""
    await hooks.subscribe("github", URL)
    answer = await hooks.deliver("github", push("github", "https://git.example.com/team/other.git")[0])
    assert answer.status == 400
    assert "team/other.git" in answer.text
    assert URL in answer.text
    [event] = await hooks.events()
    assert event["reason"] == "WebhookRefused"
    assert "team/other.git" in event["message"]


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        pytest.param(_no_secret, "Secret 'hook' with the webhook's secret does not exist", id="no Secret"),
        pytest.param(_no_key, "Secret 'hook' has no key 'secret'", id="no key"),
        pytest.param(_empty_secret, "key 'secret' of Secret 'hook' is empty", id="an empty value"),
    ],
)
async def test_a_missing_secret_is_told_its_owner(hooks: Hooks, prepare: Prepare, words: str) -> None:
    """What the sender is not told, the project's events tell its owner, once in a while and not for every delivery."""
    await prepare(hooks)
    for _ in range(5):
        await hooks.deliver("github", push("github", URL)[0], secret="guessed")
    [event] = await hooks.events()
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "WebhookRefused", 1)
    assert words in event["message"]
    await hooks.clock.advance(601)
    await hooks.deliver("github", push("github", URL)[0], secret="guessed")
    assert [event["count"] for event in await hooks.events()] == [2]


async def test_wrong_repositories_are_told_now_and_then(hooks: Hooks) -> None:
    """A group's hook at a project's own address does not fill the project's events: they tell of one such delivery in ten minutes."""
    await hooks.subscribe("github", URL)
    for number in range(5):
        await hooks.deliver("github", push("github", f"https://git.example.com/team/other-{number}.git")[0])
    assert len(await hooks.events()) == 1


async def test_strangers_write_nothing(hooks: Hooks) -> None:
    """Deliveries that prove nothing leave no event and no annotation on a project that is in order."""
    await hooks.subscribe("github", URL)
    for _ in range(5):
        await hooks.deliver("github", push("github", URL)[0], secret="guessed")
    assert (await hooks.events(), await hooks.stamp()) == ([], None)


async def test_the_line_end_of_an_editor(hooks: Hooks) -> None:
    """A secret that was written with `echo` or an editor is what its author meant."""
    await hooks.subscribe("github", URL, secret=secret_of("github") + "\r\n")
    assert (await hooks.deliver("github", push("github", URL)[0])).status == 202


async def test_no_secret_in_any_answer(hooks: Hooks) -> None:
    """Neither answers nor events repeat a secret."""
    await hooks.subscribe("gitlab", URL)
    answers = [await hooks.deliver("gitlab", push("gitlab", url)[0]) for url in (URL, "https://git.example.com/other")]
    shown = "".join(answer.body.decode() for answer in answers) + json.dumps(await hooks.events())
    assert secret_of("gitlab") not in shown


class BrokenCluster(SqliteCluster):
    """A store that does not answer."""

    async def get(self, kind: ResourceKind, namespace: str | None, name: str) -> Object:
        """Fail."""
        raise StoreUnavailable(f"cannot read {namespace}/{name}: the disk is gone", kind=kind.kind, name=name)


async def test_a_store_that_does_not_answer(hooks: Hooks) -> None:
    """Without the store a delivery is 503 with a time to come back, and the cause stays in the log."""
    broken = BrokenCluster(":memory:", FakeClock())
    hooks.receiver = Receiver(broken, hooks.clock)
    answer = await hooks.deliver("github", push("github", URL)[0])
    await broken.close()
    assert (answer.status, answer.headers["retry-after"]) == (503, "10")
    assert "disk" not in answer.text


async def test_a_project_that_the_store_refuses_to_stamp(hooks: Hooks) -> None:
    """A project whose annotations are full is told as such: the delivery was right."""
    await hooks.subscribe("github", URL)
    await hooks.cluster.patch(ARENA_PROJECT, TEAM, PROJECT, {"metadata": {"annotations": {"full": "x" * (262_144 - 4)}}})
    answer = await hooks.deliver("github", push("github", URL)[0])
    assert answer.status == 409
