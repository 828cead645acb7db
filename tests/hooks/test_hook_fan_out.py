"""One address for all projects of a git host: `POST /hooks/{host}`."""

import pytest

from reconcile.cluster.port import ARENA_PROJECT
from tests.hooks.sender import FLAVOURS, Hooks, host_of, push, secret_of

URL = "https://git.example.com/team/prompts.git"
OTHER = "https://git.example.com/team/other.git"


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_every_project_of_the_remote_whose_secret_verifies(hooks: Hooks, flavour: str) -> None:
    """All projects of the payload's remote with this secret are asked for, in every namespace, and no other project is."""
    host, secret = host_of(flavour), secret_of(flavour)
    await hooks.subscribe(host, URL, secret=secret, key="one/prompts")
    await hooks.subscribe(host, URL.removesuffix(".git"), secret=secret, key="two/copy")
    await hooks.subscribe(host, URL, secret="another secret", key="three/prompts")
    await hooks.subscribe(host, OTHER, secret=secret, key="one/other")
    await hooks.subscribe("generic" if host != "generic" else "github", URL, secret=secret, key="four/prompts")
    answer = await hooks.deliver(flavour, *push(flavour, URL), path=f"/hooks/{host}")
    assert answer.status == 202
    assert {(each["namespace"], each["project"]) for each in answer.json["requested"]} == {("one", "prompts"), ("two", "copy")}
    stamps = [await hooks.stamp(key) for key in ("one/prompts", "two/copy", "three/prompts", "one/other", "four/prompts")]
    assert [stamp is not None for stamp in stamps] == [True, True, False, False, False]


async def test_a_repository_that_nobody_mirrors(hooks: Hooks) -> None:
    """A group's hook delivers for every repository; one that no project mirrors is no failure of the hook when some project has its secret."""
    await hooks.subscribe("gitlab", URL)
    answer = await hooks.deliver("gitlab", *push("gitlab", OTHER), path="/hooks/gitlab")
    assert (answer.status, answer.json["requested"], await hooks.stamp()) == (200, [], None)
    assert (await hooks.deliver("gitlab", *push("gitlab", OTHER), path="/hooks/gitlab", secret="guessed")).status == 401


async def test_a_remote_of_others_is_not_told_from_one_of_nobody(hooks: Hooks) -> None:
    """Whoever has another project's secret learns nothing of who mirrors what."""
    await hooks.subscribe("github", URL, secret="theirs", key="them/prompts")
    await hooks.subscribe("github", OTHER, secret="ours", key="us/other")
    known = await hooks.deliver("github", *push("github", URL), path="/hooks/github", secret="ours")
    unknown = await hooks.deliver("github", *push("github", "https://git.example.com/nobody"), path="/hooks/github", secret="ours")
    assert (known, await hooks.stamp("them/prompts")) == (unknown, None)
    assert known.status == 200


async def test_a_repository_that_nobody_mirrors_from_an_address_that_failed_too_often(hooks: Hooks) -> None:
    """Other projects' secrets are not tried for an address that failed too often, so that a flood costs little; nothing is lost by that."""
    await hooks.subscribe("gitlab", URL)
    for _ in range(25):
        await hooks.post("/hooks/gitlab", b"{}")
    assert (await hooks.deliver("gitlab", *push("gitlab", OTHER), path="/hooks/gitlab")).status == 429
    assert (await hooks.deliver("gitlab", *push("gitlab", URL), path="/hooks/gitlab")).status == 202


async def test_a_ping_at_the_hosts_address(hooks: Hooks) -> None:
    """A ping that names no repository is known by any project's secret."""
    await hooks.subscribe("github", URL)
    assert (await hooks.deliver("github", {"zen": "Anything added dilutes everything else."}, "ping", path="/hooks/github")).status == 200
    assert (await hooks.deliver("github", {"zen": "Approachable is better than simple."}, "ping", path="/hooks/github", secret="no")).status == 401


async def test_nobody_is_there(hooks: Hooks) -> None:
    """Without any project the address refuses like any other."""
    assert (await hooks.deliver("github", *push("github", URL), path="/hooks/github")).status == 401


async def test_one_project_without_its_secret(hooks: Hooks) -> None:
    """A project whose Secret is missing does not keep the delivery from the others; its owner is told."""
    await hooks.subscribe("github", URL, key="one/prompts")
    webhook = {"host": "github", "secretRef": {"name": "absent", "key": "secret"}}
    await hooks.cluster.create(
        {
            "apiVersion": ARENA_PROJECT.api_version,
            "kind": "ArenaProject",
            "metadata": {"namespace": "two", "name": "prompts"},
            "spec": {"external": {"url": URL, "webhook": webhook}},
        }
    )
    answer = await hooks.deliver("github", *push("github", URL), path="/hooks/github")
    assert [each["namespace"] for each in answer.json["requested"]] == ["one"]
    [event] = await hooks.events()
    assert event["involvedObject"]["namespace"] == "two"


async def test_one_of_two_is_suspended(hooks: Hooks) -> None:
    """Each project says for itself whether its fetch waits."""
    await hooks.subscribe("github", URL, key="one/prompts")
    await hooks.subscribe("github", URL, key="two/prompts", suspend=True)
    answer = await hooks.deliver("github", *push("github", URL), path="/hooks/github")
    assert [each["suspended"] for each in answer.json["requested"]] == [False, True]
    assert "message" not in answer.json
