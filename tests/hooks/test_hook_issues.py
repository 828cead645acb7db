"""Issues that users of other webhook receivers raised, by their numbers in those projects: none of them is one here.

The list is git-facts.md, section 6, 1 to 14; some of them have more tests elsewhere in this folder.
"""

import json

import pytest

from hooks.hosts import HOSTS
from reconcile.cluster.port import ARENA_PROJECT
from tests.hooks.sender import FLAVOURS, PROJECT, TEAM, Hooks, Incoming, host_of, push, secret_of

URL = "https://git.example.com/team/prompts.git"
NOTHING = "0" * 40


async def test_gitlab_refreshes(hooks: Hooks) -> None:
    """argoproj/argo-cd#7657: a GitLab hook was answered and nothing was refreshed. Here 202 means that the project bears the request."""
    await hooks.subscribe("gitlab", "https://gitlab.example.com/team/prompts")
    payload = {"object_kind": "push", "ref": "refs/heads/main", "project": {"git_ssh_url": "git@gitlab.example.com:team/prompts.git"}}
    answer = await hooks.deliver("gitlab", payload)
    assert (answer.status, answer.json["requested"][0]["sync"]) == (202, await hooks.stamp())


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_every_delivery_asks_anew(hooks: Hooks, flavour: str) -> None:
    """argoproj/argo-cd#20995: a webhook did not trigger a sync. Here each delivery asks by a new value, so the same push twice is two requests."""
    await hooks.subscribe(host_of(flavour), URL, secret=secret_of(flavour))
    first = (await hooks.deliver(flavour, *push(flavour, URL))).json["requested"][0]["sync"]
    second = (await hooks.deliver(flavour, *push(flavour, URL))).json["requested"][0]["sync"]
    assert first != second == await hooks.stamp()


@pytest.mark.parametrize("remote", ["https://dev.azure.com/org/proj/_git/repo", "https://org.visualstudio.com/DefaultCollection/proj/_git/repo"])
@pytest.mark.parametrize("named", ["https://org@dev.azure.com/org/proj/_git/repo", "https://org.visualstudio.com/proj/_git/repo"])
async def test_azure_refreshes(hooks: Hooks, remote: str, named: str) -> None:
    """argoproj/argo-cd#20125: a push to Azure DevOps refreshed nothing, because its addresses did not match. Here they all do."""
    await hooks.subscribe("azure-devops", remote)
    assert (await hooks.deliver("azure-devops", *push("azure-devops", named))).status == 202


async def test_nothing_of_a_payload_is_kept(hooks: Hooks) -> None:
    """argoproj/argo-cd#27194 and #9831: a cache took a push event's word. Here no commit, branch or path of a payload leaves the receiver."""
    await hooks.subscribe("github", URL)
    payload = {
        "ref": "refs/heads/evil",
        "after": "e" * 40,
        "repository": {"clone_url": URL, "default_branch": "evil"},
        "commits": [{"added": ["evil"]}],
    }
    await hooks.deliver("github", payload)
    project = await hooks.cluster.get(ARENA_PROJECT, TEAM, PROJECT)
    assert "evil" not in json.dumps(project)
    assert "eeee" not in json.dumps(project)


async def test_secrets_and_addresses_are_read_anew(hooks: Hooks) -> None:
    """The same issues: neither a rotated secret nor a project's new URL waits for a cache to forget the old one."""
    await hooks.subscribe("github", URL)
    await hooks.deliver("github", *push("github", URL))
    await hooks.set_secret("rotated")
    assert (await hooks.deliver("github", *push("github", URL))).status == 401
    assert (await hooks.deliver("github", *push("github", URL), secret="rotated")).status == 202
    moved = "https://git.example.com/team/moved.git"
    await hooks.cluster.patch(ARENA_PROJECT, TEAM, PROJECT, {"spec": {"external": {"url": moved}}})
    assert (await hooks.deliver("github", *push("github", URL), secret="rotated")).status == 400
    assert (await hooks.deliver("github", *push("github", moved), secret="rotated")).status == 202


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_no_secret_no_entry(hooks: Hooks, flavour: str) -> None:
    """argoproj/argo-cd#1142: deliveries were accepted when the secret was not set, or wrong. Here an empty secret lets nobody in, not even with "" as key."""
    await hooks.subscribe(host_of(flavour), URL, secret="")
    payload, event = push(flavour, URL)
    wrong = "whsec_AAAA" if flavour == "gitlab-signing" else "wrong"
    assert (await hooks.deliver(flavour, payload, event, secret=wrong)).status == 401
    body = json.dumps(payload).encode()
    for empty in (b"", b"whsec_"):
        headers = HOSTS[host_of(flavour)].sign(empty, body, hooks.clock.now())
        assert (await hooks.post(f"/hooks/{host_of(flavour)}/{TEAM}/{PROJECT}", body, headers)).status == 401


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("path", [f"/{TEAM}/{PROJECT}", ""])
async def test_every_receiver_verifies(hooks: Hooks, host: str, path: str) -> None:
    """argoproj/argo-cd#21444: a second receiver had no HMAC. Here there is one receiver, and every host and address of it asks for proof."""
    await hooks.subscribe(host, URL)
    body = json.dumps(push(host, URL)[0]).encode()
    for headers in ({}, HOSTS[host].sign(b"wrong", body, hooks.clock.now())):
        assert (await hooks.post(f"/hooks/{host}{path}", body, headers)).status == 401
    assert await hooks.stamp() is None


@pytest.mark.parametrize("host", HOSTS)
async def test_oversized_payloads(hooks: Hooks, host: str) -> None:
    """GHSA-jmvp-698c-4x3w: an unauthenticated large payload exhausted memory. Here its size is refused by its length and by count."""
    headers = HOSTS[host].sign(b"wrong", b"", hooks.clock.now())
    declared = await hooks.post(f"/hooks/{host}/{TEAM}/{PROJECT}", Incoming([b"x"], stalls=True), {**headers, "content-length": str(10**9)})
    endless = Incoming([b"x" * 1024 * 1024] * 60)
    counted = await hooks.post(f"/hooks/{host}", endless, headers)
    assert declared.status in (401, 413)  # 401 where the head alone proves the sender
    assert counted.status == 413
    assert endless.read_bytes < 4 * 1024 * 1024


@pytest.mark.parametrize(
    ("flavour", "payload"),
    [
        pytest.param("azure-devops", {"eventType": "git.push", "resource": {"refUpdates": []}}, id="Azure without ref updates"),
        pytest.param("azure-devops", {"eventType": "git.push", "resource": None}, id="Azure without a resource"),
        pytest.param("bitbucket", {"push": {"changes": [None, {}]}, "repository": {"links": {"html": []}}}, id="Bitbucket with changes of nothing"),
        pytest.param("bitbucket-server", {"eventKey": "repo:refs_changed", "repository": {"links": {"clone": [{}, 1, None]}}}, id="links of nothing"),
        pytest.param("gitlab", {"object_kind": "push", "ref": None, "project": []}, id="GitLab with a list for a project"),
        pytest.param("gogs", {"ref": 3, "repository": {"html_url": None}}, id="Gogs with a number for a ref"),
        pytest.param("github", {"ref": "refs", "repository": {"clone_url": "https://"}}, id="GitHub with half a ref and half a URL"),
    ],
)
async def test_malformed_push_events(hooks: Hooks, flavour: str, payload: dict[str, object]) -> None:
    """CVE-2025-59538: a malformed push event crashed the server. Here it is 400, and the next one is taken."""
    await hooks.subscribe(host_of(flavour), URL)
    assert (await hooks.deliver(flavour, payload, push(flavour, URL)[1])).status == 400
    assert (await hooks.deliver(flavour, *push(flavour, URL))).status == 202


async def test_a_generic_delivery_reaches_its_project(hooks: Hooks) -> None:
    """fluxcd/notification-controller#440: an HMAC receiver answered and nothing reconciled. Here the answer names what was asked for."""
    await hooks.subscribe("generic", URL)
    answer = await hooks.deliver("generic", {"repository": URL})
    assert answer.json["requested"] == [{"namespace": TEAM, "project": PROJECT, "sync": await hooks.stamp(), "suspended": False}]


async def test_all_namespaces_are_reached(hooks: Hooks) -> None:
    """fluxcd/flux2#1115: resources of other namespaces were ignored without a word. Here one address reaches all, each by its own secret."""
    for namespace in ("a", "b", "c"):
        await hooks.subscribe("github", URL, key=f"{namespace}/prompts")
    answer = await hooks.deliver("github", *push("github", URL), path="/hooks/github")
    assert [each["namespace"] for each in answer.json["requested"]] == ["a", "b", "c"]


async def test_equal_findings_are_one_event(hooks: Hooks) -> None:
    """fluxcd/notification-controller#509: duplicates differed by a duration in their text. Here equal findings are one event, written once in ten minutes."""
    await hooks.subscribe("github", URL, secret="")
    for _ in range(10):
        await hooks.deliver("github", *push("github", URL))
        await hooks.clock.advance(1)
    assert [event["count"] for event in await hooks.events()] == [1]


@pytest.mark.parametrize(
    ("flavour", "payload", "event"),
    [
        pytest.param("github", {"ref": "v1", "ref_type": "tag", "repository": {"clone_url": URL}}, "create", id="github: a tag made"),
        pytest.param(
            "github", {"ref": "refs/tags/v1", "before": NOTHING, "created": True, "repository": {"clone_url": URL}}, "push", id="github: a tag pushed"
        ),
        pytest.param(
            "github", {"ref": "a/b/c", "ref_type": "branch", "repository": {"clone_url": URL}}, "delete", id="github: a branch with slashes gone"
        ),
        pytest.param("gitea", {"ref": "v1", "ref_type": "tag", "repository": {"clone_url": URL}}, "create", id="gitea: a tag made"),
        pytest.param("gitea", {"ref": "refs/heads/new", "before": NOTHING, "repository": {"clone_url": URL}}, "push", id="gitea: a new branch"),
        pytest.param("gogs", {"ref": "old", "ref_type": "branch", "repository": {"clone_url": URL}}, "delete", id="gogs: a branch gone"),
        pytest.param(
            "gitlab", {"object_kind": "tag_push", "ref": "refs/tags/v1", "after": NOTHING, "project": {"url": URL}}, "", id="gitlab: a tag gone"
        ),
        pytest.param(
            "gitlab", {"event_name": "repository_update", "refs": ["refs/heads/x"], "project": {"http_url": URL}}, "", id="gitlab: a system hook"
        ),
        pytest.param(
            "bitbucket",
            {"push": {"changes": [{"old": {"type": "tag", "name": "v1"}, "new": None}]}, "repository": {"links": {"html": {"href": URL}}}},
            "repo:push",
            id="bitbucket: a tag gone",
        ),
        pytest.param(
            "bitbucket", {"push": {"changes": []}, "repository": {"links": {"html": {"href": URL}}}}, "repo:push", id="bitbucket: more than it lists"
        ),
        pytest.param(
            "bitbucket-server",
            {"changes": [{"refId": "refs/tags/v1", "type": "ADD"}], "repository": {"links": {"clone": [{"href": URL}]}}},
            "repo:refs_changed",
            id="bitbucket-server: a tag made",
        ),
        pytest.param(
            "bitbucket-server",
            {"repository": {"links": {"clone": [{"href": URL}]}}},
            "mirror:repo_synchronized",
            id="bitbucket-server: a mirror caught up",
        ),
        pytest.param(
            "azure-devops",
            {
                "eventType": "git.push",
                "resource": {"refUpdates": [{"name": "refs/heads/x", "newObjectId": NOTHING}], "repository": {"remoteUrl": URL}},
            },
            "",
            id="azure-devops: a branch gone",
        ),
    ],
)
async def test_every_change_of_refs_asks(hooks: Hooks, flavour: str, payload: dict[str, object], event: str) -> None:
    """go-gitea/gitea#1002, #12482, gogs/gogs#5473: tags and new branches caused no event. Here whatever may change a ref asks for a look, zero SHAs included."""
    await hooks.subscribe(host_of(flavour), URL)
    assert (await hooks.deliver(flavour, payload, event)).status == 202


async def test_a_delivery_of_any_branch_asks(hooks: Hooks) -> None:
    """pulumi/pulumi-kubernetes-operator#865: a new commit was not noticed. Here no branch filter stands between a push and a look."""
    await hooks.subscribe("github", URL)
    seen = set()
    for ref in ("refs/heads/main", "refs/heads/feature/x/y", "refs/notes/commits", "refs/pull/1/head", ""):
        await hooks.deliver("github", {"ref": ref, "repository": {"clone_url": URL}})
        seen.add(await hooks.stamp())
    assert len(seen) == 5
