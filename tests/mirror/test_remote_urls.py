"""Which URLs may be mirrored, which spellings name one repository, and how a Secret becomes a header."""

import base64

import pytest

from gitops.remote import Credentials, Remote, check_url, same_repository
from gitops.remote_failures import status_failure

LONG = "https://git.example.com/" + "a" * 2048


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        pytest.param("https://git.example.com/team/prompts.git", None, id="a clone address"),
        pytest.param("https://git.example.com:8443/team/prompts", None, id="a port"),
        pytest.param("https://192.0.2.7/team/prompts", None, id="an IPv4 address"),
        pytest.param("https://[2001:db8::7]:8443/team/prompts", None, id="an IPv6 address"),
        pytest.param("HTTPS://GIT.example.com/team/prompts", None, id="any case"),
        pytest.param("https://dev.azure.com/team/my%20project/_git/prompts", None, id="a space, encoded"),
        pytest.param("https://gitea/team/prompts", None, id="a name in the cluster"),
        pytest.param("http://git.example.com/a/b", "only https", id="http"),
        pytest.param("ssh://git@git.example.com/a/b", "only https", id="ssh"),
        pytest.param("git@git.example.com:a/b", "only https", id="scp"),
        pytest.param("file:///etc/passwd", "only https", id="a file"),
        pytest.param("ext::sh -c id", "a space", id="ext::"),
        pytest.param("ext::sh", "only https", id="ext:: without a space"),
        pytest.param("/srv/git/a.git", "only https", id="a path"),
        pytest.param("--upload-pack=x", "only https", id="an option"),
        pytest.param("", "a space, a backslash, or a character", id="nothing"),
        pytest.param("https://user:pw@git.example.com/a/b", "a credential", id="a credential"),
        pytest.param("https://@git.example.com/a/b", "a credential", id="an empty credential"),
        pytest.param("https://git.example.com/a/b?x=1", "a query", id="a query"),
        pytest.param("https://git.example.com/a/b#x", "a query or a fragment", id="a fragment"),
        pytest.param("https://git.example.com/a/b?", "a query", id="an empty query"),
        pytest.param("https://git.example.com\\@evil.example/a", "a backslash", id="a backslash"),
        pytest.param("https://git.example.com/a\n/b", "a space, a backslash, or a character", id="a newline"),
        pytest.param("https://gıt.example.com/a/b", "not ASCII", id="a letter that is not ASCII"),
        pytest.param("https://git.example.com:0/a/b", "port", id="port 0"),
        pytest.param("https://git.example.com:65536/a/b", "no URL", id="a port too large"),
        pytest.param("https://git.example.com:/a/b", "port", id="an empty port"),
        pytest.param("https://git.example.com", "names no repository", id="no path"),
        pytest.param("https://git.example.com//", "names no repository", id="an empty path"),
        pytest.param("https://git.example.com/a/../b", "segment '.' or '..'", id="a path that climbs"),
        pytest.param("https://git.example.com/a/%2e%2E/b", "segment '.' or '..'", id="an encoded path that climbs"),
        pytest.param("https:///a/b", "no DNS name", id="no host"),
        pytest.param("https://git.example.com./a/b", "ends with a dot", id="a dot at the end"),
        pytest.param("https://127.0.0.1./a/b", "ends with a dot", id="an address with a dot at the end"),
        pytest.param("https://0177.0.0.1/a/b", "four decimal numbers", id="octal"),
        pytest.param("https://2130706433/a/b", "four decimal numbers", id="one number"),
        pytest.param("https://0x7f000001/a/b", "four decimal numbers", id="hexadecimal"),
        pytest.param("https://127.1/a/b", "four decimal numbers", id="two numbers"),
        pytest.param("https://127.0.0.0x1/a/b", "four decimal numbers", id="partly hexadecimal"),
        pytest.param("https://[fe80::1%25eth0]/a/b", "no IPv6 address|zone", id="a zone"),
        pytest.param("https://[::1/a/b", "no URL", id="half a bracket"),
        pytest.param("https://[2001:db8::7]evil.example/a", "neither a name nor an address", id="a name behind an address"),
        pytest.param("https://evil.example[2001:db8::7]/a", "neither a name nor an address", id="a name before an address"),
        pytest.param("https://-git.example.com/a/b", "no DNS name", id="a host that begins with a hyphen"),
        pytest.param("https://a..b/a/b", "no DNS name", id="an empty label"),
        pytest.param(LONG, "longer than 2048", id="a long one"),
    ],
)
def test_which_urls_may_be_mirrored(url: str, problem: str | None) -> None:
    """Only plain https addresses of a repository, which no two programs can read differently."""
    found = check_url(url)
    if problem is None:
        assert found is None
    else:
        assert found is not None
        assert any(part in found for part in problem.split("|")), found


@pytest.mark.parametrize(
    ("url", "other", "same"),
    [
        ("https://git.example.com/team/prompts", "https://git.example.com/team/prompts.git", True),
        ("https://git.example.com/team/prompts/", "https://git.example.com/team/prompts", True),
        ("https://GIT.example.com/team/prompts", "https://git.example.com/Team/Prompts.git", True),
        ("https://git.example.com:443/team/prompts", "https://git.example.com/team/prompts", True),
        ("https://git.example.com/team/prompts", "http://git.example.com/team/prompts", True),
        ("https://git.example.com:8443/team/prompts", "ssh://git@git.example.com:2222/team/prompts.git", True),
        ("https://git.example.com/team/prompts", "git@git.example.com:team/prompts.git", True),
        ("https://git.example.com/team/prompts", "git.example.com:team/prompts", True),
        ("https://git.example.com/team/prompts", "https://user@git.example.com/team/prompts", True),
        ("https://git.example.com/scm/team/prompts.git", "ssh://git@git.example.com:7999/team/prompts.git", True),
        ("https://dev.azure.com/org/my%20project/_git/repo", "git@ssh.dev.azure.com:v3/org/my project/repo", True),
        ("https://dev.azure.com/org/project/_git/repo", "https://org.visualstudio.com/project/_git/repo", True),
        ("https://git.example.com/team/prompts", "https://git.example.com/team/other", False),
        ("https://git.example.com/team/prompts", "https://git.example.org/team/prompts", False),
        ("https://git.example.com:8443/team/prompts", "https://git.example.com/team/prompts", False),
        ("https://git.example.com/team/prompts", "https://git.example.com/team/prompts/x", False),
        ("https://git.example.com/team/prompts", "", False),
        ("", "", False),
        ("https://git.example.com/", "https://git.example.com/", False),
        ("https://[::1/team/prompts", "https://[::1/team/prompts", False),
        (LONG, LONG, False),
    ],
)
def test_spellings_of_one_repository(url: str, other: str, *, same: bool) -> None:
    """A host spells a repository in many ways, and each of them, and no other repository's, is the project's; the order does not matter."""
    assert same_repository(url, other) is same
    assert same_repository(other, url) is same


@pytest.mark.parametrize(
    ("credentials", "sent"),
    [
        pytest.param(Credentials(), None, id="nothing"),
        pytest.param(Credentials(ca_certificates="x"), None, id="an authority alone"),
        pytest.param(Credentials("ann", "pw"), "ann:pw", id="user and password"),
        pytest.param(Credentials(token="glpat-1"), "x-token-auth:glpat-1", id="a token of GitLab, Gitea or Azure DevOps: any user will do"),
        pytest.param(Credentials(token="ATCTT3x"), "x-token-auth:ATCTT3x", id="an access token of Bitbucket"),
        pytest.param(Credentials(token="ATATT3x"), "x-bitbucket-api-token-auth:ATATT3x", id="an API token of Bitbucket"),
        pytest.param(Credentials(token="ghs_1"), "x-access-token:ghs_1", id="an installation token of GitHub"),
        pytest.param(Credentials(token="github_pat_1"), "x-access-token:github_pat_1", id="a fine-grained token of GitHub"),
        pytest.param(Credentials("oauth2", token="t"), "oauth2:t", id="a user beside the token wins"),
        pytest.param(Credentials("ann", "grüße"), "ann:grüße", id="UTF-8"),
    ],
)
def test_credentials_become_basic_authentication(credentials: Credentials, sent: str | None) -> None:
    """Git over https knows Basic alone, and each host wants its own user name beside a token."""
    expected = None if sent is None else "Basic " + base64.b64encode(sent.encode()).decode()
    assert credentials.authorization == expected


def test_no_secret_is_shown() -> None:
    """Neither the repr of a remote nor a redacted text holds a secret, in any form in which it travels."""
    credentials = Credentials("ann", "pass-1", "token-2", "cert-3")
    shown = repr(Remote("https://git.example.com/a/b", credentials))
    assert not any(secret in shown for secret in ("pass-1", "token-2", "cert-3"))
    text = credentials.redact(f"a pass-1 b token-2 c {credentials.authorization}")
    assert text == "a *** b *** c Basic ***"


def test_a_remedy_is_never_mangled() -> None:
    """A secret that is an everyday word is struck out of what others said, and not out of our own remedies."""
    failure = status_failure(Remote("https://git.example.com/secret/b", Credentials(token="secret")), 401)
    assert failure.message == "cannot fetch 'https://git.example.com/***/b': the host refuses the credential (401)"
    assert failure.hint.startswith("check that what the Secret of spec.external.secretRef holds")


@pytest.mark.parametrize(
    ("credentials", "told"),
    [
        pytest.param(Credentials(token="t-1"), True, id="a token alone"),
        pytest.param(Credentials("ann", token="t-1"), False, id="a token and its user"),
        pytest.param(Credentials("ann", "p-1"), False, id="user and password"),
    ],
)
def test_a_refused_token_is_told_of_its_user(credentials: Credentials, *, told: bool) -> None:
    """Who gave no user name beside a token hears that some hosts want it."""
    failure = status_failure(Remote("https://git.example.com/a/b", credentials), 401)
    assert ("username beside the token" in failure.hint) is told
