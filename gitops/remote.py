"""Remotes: which URLs may be mirrored, with which credentials, and when two spellings mean one repository.

Owns the rule what a remote's URL may be, and how a Secret's keys become an `Authorization` header. Touches no network and must not know who asks.
"""

import base64
import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

LONGEST_URL = 2048

_PRINTABLE = re.compile(r"[!-~]+")
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)
_AUTHORITY = re.compile(r"(?:[^\[\]:]*|\[[^\[\]]*\])(?::[0-9]+)?")
_DOTS = re.compile(r"(?:\.|%2e){1,2}", re.IGNORECASE)
_SCP = re.compile(r"(?:[^@/\s]+@)?(?P<host>\[[^\]/]+\]|[^:/@\s]+):(?!//)(?P<path>.+)")
_PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418}
_AZURE = "dev.azure.com"
_AZURE_OLD = ".visualstudio.com"
_AZURE_SSH = ("ssh.dev.azure.com", "vs-ssh.visualstudio.com")
_AZURE_SSH_SEGMENTS = 4
_AZURE_EXTRA = frozenset({"defaultcollection", "_full", "_optimized"})
_AZURE_SHORT_SEGMENTS = 3
_BITBUCKET_SEGMENTS = 3

# The user names that hosts ask for beside a token (git-facts section 7 leaves it open): GitHub's installation tokens and Bitbucket's API tokens want
# their own; Bitbucket's access tokens want x-token-auth; GitLab, Gitea, Forgejo and Azure DevOps take any that is not empty.
_TOKEN_USERS = (
    ("x-access-token", re.compile(r"gh[a-z]_|github_pat_")),
    ("x-bitbucket-api-token-auth", re.compile(r"ATATT")),
    ("x-token-auth", re.compile(r"")),
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a Secret holds for one remote; all empty for a public one. `ca_certificates` are PEM, and then the only ones that are trusted.

    A token is sent as the password; `username` beside it overrides the user name that the token's host expects.
    """

    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    ca_certificates: str = field(default="", repr=False)

    @property
    def authorization(self) -> str | None:
        """The value of the `Authorization` header; None when there is nothing to send."""
        secret = self.token or self.password
        if not secret and not self.username:
            return None
        user = self.username or next(user for user, pattern in _TOKEN_USERS if pattern.match(secret))
        return "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode("ascii")

    def redact(self, text: str) -> str:
        """Return `text` without any secret of these, in the forms in which they travel."""
        header = (self.authorization or "").removeprefix("Basic ")
        for secret in filter(None, (header, self.token, self.password)):
            text = text.replace(secret, "***")
        return text


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository on somebody else's host. `default_branch` is short or full (`main`, `refs/heads/main`); empty: the remote's HEAD."""

    url: str
    credentials: Credentials = Credentials()
    default_branch: str = ""


def check_url(url: str) -> str | None:
    """Say why this URL cannot be mirrored; None when it can. Nothing is resolved: addresses are checked at every fetch."""
    if len(url) > LONGEST_URL:
        return f"it is longer than {LONGEST_URL} characters"
    if _PRINTABLE.fullmatch(url) is None or "\\" in url:
        return "it holds a space, a backslash, or a character that is not ASCII"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "it is no URL, or its port is no number from 1 to 65535"
    if port == 0 or parts.netloc.endswith(":"):
        return "its port is no number from 1 to 65535"
    return _form_problem(url, parts) or _host_problem(parts.hostname or "") or _path_problem(parts.path)


def _form_problem(url: str, parts: SplitResult) -> str | None:
    if parts.scheme != "https":
        return "only https remotes are mirrored: write https://host/path"
    if "@" in parts.netloc:
        return "it holds a credential; put it into the Secret that spec.external.secretRef names"
    if _AUTHORITY.fullmatch(parts.netloc) is None:
        return "its host is neither a name nor an address"  # `[address]name`: urlsplit reads the one, another program might read the other
    return "it has a query or a fragment" if "?" in url or "#" in url else None


def _host_problem(host: str) -> str | None:
    """Refuse what our resolver and git's could read differently: addresses in octal, hexadecimal, as one number; zones; a dot at the end."""
    if ":" in host:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            return "its host is no IPv6 address"
        return "its host has a zone" if "%" in host else None
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            return "its host is no IPv4 address of four decimal numbers"
        return None
    if host.endswith("."):
        return "its host ends with a dot"
    return None if _HOST.fullmatch(host) else "its host is no DNS name"


def _path_problem(path: str) -> str | None:
    segments = path.strip("/").split("/")
    if segments == [""]:
        return "it names no repository"
    return "its path has a segment '.' or '..'" if any(_DOTS.fullmatch(segment) for segment in segments) else None


def same_repository(url: str, other: str) -> bool:
    """Say whether two spellings name one repository: https, http, ssh and `git@host:path`, with or without `.git`, user, slash and default port.

    Letters' case is ignored, in the path too: every host of ours folds it. Ports are compared only within one scheme. False for what is no URL, and for
    what is too long to be one of a remote: it may be a stranger's.
    """
    one, two = _identity(url), _identity(other)
    if one is None or two is None:
        return False
    return (one.host, one.path) == (two.host, two.path) and (one.scheme != two.scheme or one.port == two.port)


@dataclass(frozen=True, slots=True)
class _Identity:
    scheme: str
    host: str
    port: int | None
    path: str


def _identity(url: str) -> _Identity | None:
    if len(url) > LONGEST_URL:
        return None
    scp = _SCP.fullmatch(url.strip())
    try:
        parts = SplitResult("ssh", scp["host"], scp["path"], "", "") if scp and "://" not in url else urlsplit(url.strip())
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return None
    if not host or parts.scheme not in _PORTS:
        return None
    path = unquote(parts.path).strip("/").casefold().removesuffix(".git")
    if not path:
        return None
    host, path = _canonical(host, path)
    return _Identity(parts.scheme, host, port or _PORTS[parts.scheme], path)


def _canonical(host: str, path: str) -> tuple[str, str]:
    """Fold the addresses that one host gives one repository over https and over ssh."""
    segments = path.split("/")
    if host in _AZURE_SSH and len(segments) == _AZURE_SSH_SEGMENTS and segments[0] == "v3":
        return _AZURE, "/".join((segments[1], segments[2], "_git", segments[3]))
    if host.endswith(_AZURE_OLD):
        host, segments = _AZURE, [host.removesuffix(_AZURE_OLD), *segments]
    if host == _AZURE:
        return host, "/".join(_canonical_azure(segments))
    if len(segments) == _BITBUCKET_SEGMENTS and segments[0] == "scm":
        return host, "/".join(segments[1:])
    return host, path


def _canonical_azure(segments: list[str]) -> list[str]:
    """Return organisation, project, `_git`, repository. A project that is named like its repository may be left out, and the collection, too."""
    kept = [segment for segment in segments if segment not in _AZURE_EXTRA]
    return [kept[0], kept[2], *kept[1:]] if len(kept) == _AZURE_SHORT_SEGMENTS and kept[1] == "_git" else kept
