"""One repository, many spellings: what a host writes into a payload, and what a project's URL says."""

from typing import Any

import pytest
from starlette.datastructures import Headers

from hooks.hosts import HOSTS

GITHUB = "https://github.com/Team/Prompts.git"
AZURE = "https://dev.azure.com/Team/My%20Project/_git/Prompts"
SHORT_AZURE = "https://dev.azure.com/team/prompts/_git/prompts"
SERVER = "https://git.example.com/bitbucket/scm/PRJ/prompts.git"


def repository(host: str, spelling: str) -> dict[str, Any]:
    """Return a payload that names its repository in this way."""
    payloads: dict[str, dict[str, Any]] = {
        "github": {"repository": {"html_url": spelling}},
        "gitea": {"repository": {"ssh_url": spelling}},
        "gitlab": {"project": {"git_ssh_url": spelling}},
        "bitbucket": {"repository": {"full_name": spelling}},
        "bitbucket-server": {"repository": {"links": {"clone": [{"href": "ssh://git@x.example.com/a/b.git"}, {"href": spelling}]}}},
        "azure-devops": {"resource": {"repository": {"remoteUrl": spelling}}},
        "generic": {"repository": spelling},
    }
    return payloads[host]


@pytest.mark.parametrize(
    ("host", "spelling", "remote"),
    [
        pytest.param("github", "https://github.com/team/prompts", GITHUB, id="the page, in other letters"),
        pytest.param("github", "git@github.com:Team/Prompts.git", GITHUB, id="ssh as scp spells it"),
        pytest.param("github", "git://github.com/Team/Prompts.git", GITHUB, id="git's own protocol"),
        pytest.param("github", "https://GitHub.com:443/Team/Prompts/", GITHUB, id="host in capitals, default port, slash at the end"),
        pytest.param(
            "gitea", "ssh://git@git.example.com:2222/team/prompts.git", "https://git.example.com/team/prompts", id="ssh at a port of its own"
        ),
        pytest.param(
            "gitea",
            "http://git.example.com:3000/team/prompts.git",
            "https://git.example.com/team/prompts",
            id="http behind a proxy that speaks https",
        ),
        pytest.param(
            "gitlab", "git@git.example.com:team/sub/group/prompts.git", "https://git.example.com/team/sub/group/prompts.git", id="a group in a group"
        ),
        pytest.param("bitbucket", "Team/Prompts", "https://bitbucket.org/team/prompts.git", id="Bitbucket Cloud names the path alone"),
        pytest.param("bitbucket-server", SERVER, SERVER, id="one of Bitbucket Server's links, below a context path"),
        pytest.param(
            "bitbucket-server", "ssh://git@git.example.com:7999/prj/prompts.git", "https://git.example.com/scm/PRJ/prompts.git", id="its ssh link"
        ),
        pytest.param(
            "azure-devops", "https://Team@dev.azure.com/Team/My%20Project/_git/Prompts", AZURE, id="Azure puts the organisation before the host"
        ),
        pytest.param("azure-devops", "https://team.visualstudio.com/My%20Project/_git/Prompts", AZURE, id="Azure's older host"),
        pytest.param(
            "azure-devops",
            "https://team.visualstudio.com/DefaultCollection/My Project/_git/Prompts",
            AZURE,
            id="with the collection, and a bare space",
        ),
        pytest.param("azure-devops", "git@ssh.dev.azure.com:v3/Team/My%20Project/Prompts", AZURE, id="Azure's ssh"),
        pytest.param("azure-devops", "team@vs-ssh.visualstudio.com:v3/Team/My%20Project/Prompts", AZURE, id="Azure's older ssh"),
        pytest.param("azure-devops", "https://dev.azure.com/team/_git/prompts", SHORT_AZURE, id="a project named like its repository is left out"),
        pytest.param("azure-devops", "https://team.visualstudio.com/DefaultCollection/_git/prompts", SHORT_AZURE, id="left out on the older host"),
        pytest.param(
            "azure-devops",
            "https://tfs.example.com/tfs/Coll/Proj/_git/Repo",
            "https://tfs.example.com/tfs/coll/proj/_git/repo",
            id="Azure DevOps Server",
        ),
        pytest.param("generic", "https://git.example.com/team/prompts", "https://git.example.com/team/prompts.git", id="as the sender likes it"),
    ],
)
def test_spellings_of_one_repository(host: str, spelling: str, remote: str) -> None:
    """Whatever spelling the host uses, it is the project's remote."""
    assert HOSTS[host].notice(Headers(), repository(host, spelling)).names(remote)


@pytest.mark.parametrize(
    ("host", "spelling", "remote"),
    [
        pytest.param("github", "https://github.com/team/prompts2", GITHUB, id="a longer name"),
        pytest.param("github", "https://github.com/other/prompts", GITHUB, id="a fork"),
        pytest.param("github", "https://github.com.example.com/team/prompts", GITHUB, id="a host that begins alike"),
        pytest.param("github", "https://github.example.com/team/prompts", GITHUB, id="the same path at another host"),
        pytest.param("github", "https://evil.example.com/?https://github.com/team/prompts", GITHUB, id="the URL within another"),
        pytest.param("gitlab", "git@git.example.com:team/prompts.git", "https://git.example.com/team/sub/prompts.git", id="a group in between"),
        pytest.param("gitlab", "https://git.example.com/team/prompts.git.git", "https://git.example.com/team/prompts", id="one .git too many"),
        pytest.param("bitbucket", "team/prompts", "https://git.example.com/team/prompts", id="Bitbucket Cloud's path at another host"),
        pytest.param("bitbucket-server", "https://git.example.com/scm/prj/prompts.git", SERVER, id="another context path"),
        pytest.param("azure-devops", "https://dev.azure.com/team/other/_git/prompts", AZURE, id="another project of the organisation"),
        pytest.param("azure-devops", "https://dev.azure.com/other/_git/prompts", SHORT_AZURE, id="another organisation"),
        pytest.param("generic", "", "https://git.example.com/team/prompts", id="nothing"),
        pytest.param("generic", "http://[", "https://git.example.com/team/prompts", id="no URL"),
        pytest.param("generic", "https://git.example.com:99999/team/prompts", "https://git.example.com/team/prompts", id="no port"),
    ],
)
def test_spellings_of_others(host: str, spelling: str, remote: str) -> None:
    """What is spelled alike and is another repository is another one."""
    assert not HOSTS[host].notice(Headers(), repository(host, spelling)).names(remote)


@pytest.mark.parametrize(
    ("remote", "same"),
    [
        pytest.param("https://git.example.com/scm/prj/prompts.git", True, id="the project's key and the slug end the path"),
        pytest.param("https://git.example.com/bitbucket/scm/PRJ/Prompts/", True, id="in any case, below any context path"),
        pytest.param("https://git.example.com/scm/aprj/prompts.git", False, id="a key that ends alike"),
        pytest.param("https://git.example.com/scm/prj/prompts2.git", False, id="a slug that begins alike"),
    ],
)
def test_an_older_bitbucket_server(remote: str, *, same: bool) -> None:
    """A server that sends no links names the project's key and the slug."""
    payload = {"repository": {"slug": "prompts", "project": {"key": "PRJ"}}}
    assert HOSTS["bitbucket-server"].notice(Headers(), payload).names(remote) is same
