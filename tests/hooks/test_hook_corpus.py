"""Every payload of the shared corpus: with the right and a wrong secret, about the right and a wrong repository."""

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.hooks.sender import PROJECT, TEAM, Hooks, host_of, payload_file, secret_of

ELSEWHERE = "https://git.example.org/somebody/else.git"
SAMPLE_APP = "https://github.com/binkkatal/sample_app.git"
PUBLIC_REPO = "https://github.com/baxterthehacker/public-repo"
DIASPORA = "https://example.com/mike/diaspora.git"
EXAMPLE = "https://localhost:3000/example/example.git"
FABRIKAM = "https://dev.azure.com/fabrikam-fiber-inc/Fabrikam-Fiber-Git/_git/Fabrikam-Fiber-Git"


class Case(NamedTuple):
    """A payload, how it is sent, and the remote that it is about. `asks`: refs may have changed."""

    file: str
    flavour: str
    event: str
    remote: str
    asks: bool


CASES = (
    Case("github/push.json", "github", "push", SAMPLE_APP, asks=True),
    Case("github/create.json", "github", "create", PUBLIC_REPO, asks=True),
    Case("github/delete.json", "github", "delete", PUBLIC_REPO, asks=True),
    Case("github/ping.json", "github", "ping", PUBLIC_REPO, asks=False),
    Case("github/pull-request.json", "github", "pull_request", PUBLIC_REPO, asks=False),
    Case("github/release.json", "github", "release", PUBLIC_REPO, asks=False),
    Case("github/workflow_run.json", "github", "workflow_run", PUBLIC_REPO, asks=False),
    Case("gitlab/push-event.json", "gitlab", "", DIASPORA, asks=True),
    Case("gitlab/push-event.json", "gitlab-signing", "", DIASPORA, asks=True),
    Case("gitlab/tag-event.json", "gitlab", "", "https://example.com/jsmith/example.git", asks=True),
    Case("gitlab/system-push-event.json", "gitlab", "", DIASPORA, asks=True),
    Case("gitlab/merge-request-event.json", "gitlab", "", "https://example.com/gitlabhq/gitlab-test.git", asks=False),
    Case("gitea/push-event.json", "gitea", "push", EXAMPLE, asks=True),
    Case("gitea/push-event.json", "forgejo", "push", EXAMPLE, asks=True),
    Case("gitea/create-event.json", "gitea", "create", EXAMPLE, asks=True),
    Case("gitea/delete-event.json", "gitea", "delete", EXAMPLE, asks=True),
    Case("gitea/pull-request-event.json", "gitea", "pull_request", EXAMPLE, asks=False),
    Case("gogs/push-event.json", "gogs", "push", "https://localhost:3000/unknwon/webhooks", asks=True),
    Case("bitbucket/repo-push.json", "bitbucket", "repo:push", "https://bitbucket.org/team_name/repo_name.git", asks=True),
    Case("bitbucket/pull-request-merged.json", "bitbucket", "pullrequest:fulfilled", "https://bitbucket.org/team_name/repo_name", asks=False),
    Case(
        "bitbucket-server/repo-refs-changed.json",
        "bitbucket-server",
        "repo:refs_changed",
        "https://server.bitbucket.local/scm/~gopher/webhook-test.git",
        asks=True,
    ),
    Case(
        "bitbucket-server/pr-merged.json", "bitbucket-server", "pr:merged", "https://server.bitbucket.local/scm/~gopher/webhook-test.git", asks=False
    ),
    Case("azuredevops/git.push.json", "azure-devops", "", FABRIKAM, asks=True),
)


NAMED = [pytest.param(case, id=f"{case.file.removesuffix('.json')} by {case.flavour}") for case in CASES]


def test_no_payload_is_left_out(corpus: Path) -> None:
    """Every file of the corpus is a case."""
    assert {str(path.relative_to(corpus / "webhooks")) for path in (corpus / "webhooks").glob("*/*.json")} == {case.file for case in CASES}


@pytest.mark.parametrize("case", NAMED)
async def test_right_secret_and_repository(hooks: Hooks, corpus: Path, case: Case) -> None:
    """A push is answered 202 with the stamp that the project now bears; any other event 200, and nothing is asked for."""
    await hooks.subscribe(host_of(case.flavour), case.remote, secret=secret_of(case.flavour))
    answer = await hooks.deliver(case.flavour, payload_file(corpus, case.file), case.event)
    stamp = await hooks.stamp()
    if case.asks:
        assert answer.status == 202
        assert answer.json["requested"] == [{"namespace": TEAM, "project": PROJECT, "sync": stamp, "suspended": False}]
        assert stamp is not None
        assert stamp.startswith("webhook-")
    else:
        assert (answer.status, answer.json["requested"], stamp) == (200, [], None)


@pytest.mark.parametrize("case", NAMED)
async def test_wrong_secret(hooks: Hooks, corpus: Path, case: Case) -> None:
    """With another secret than the project's, nothing is asked for, whatever the event."""
    await hooks.subscribe(host_of(case.flavour), case.remote, secret=secret_of(case.flavour))
    wrong = "whsec_d3Jvbmc=" if case.flavour == "gitlab-signing" else "wrong"
    answer = await hooks.deliver(case.flavour, payload_file(corpus, case.file), case.event, secret=wrong)
    assert (answer.status, await hooks.stamp()) == (401, None)


@pytest.mark.parametrize("case", NAMED)
async def test_wrong_repository(hooks: Hooks, corpus: Path, case: Case) -> None:
    """A push to another repository asks for nothing and says which one it was about; other events are about no fetch at all."""
    await hooks.subscribe(host_of(case.flavour), ELSEWHERE, secret=secret_of(case.flavour))
    answer = await hooks.deliver(case.flavour, payload_file(corpus, case.file), case.event)
    assert (answer.status, await hooks.stamp()) == (400 if case.asks else 200, None)
    if case.asks:
        assert ELSEWHERE in answer.json["error"]


@pytest.mark.parametrize("case", NAMED)
async def test_the_hosts_own_address(hooks: Hooks, corpus: Path, case: Case) -> None:
    """At the address of the host, the same delivery reaches the project of its remote."""
    await hooks.subscribe(host_of(case.flavour), ELSEWHERE, secret="another secret", key="team/other")
    await hooks.subscribe(host_of(case.flavour), case.remote, secret=secret_of(case.flavour))
    answer = await hooks.deliver(case.flavour, payload_file(corpus, case.file), case.event, path=f"/hooks/{host_of(case.flavour)}")
    assert (answer.status, bool(await hooks.stamp()), await hooks.stamp("team/other")) == (202 if case.asks else 200, case.asks, None)
