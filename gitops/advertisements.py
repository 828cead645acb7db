"""What `info/refs` answers, without a process where the answer is known.

Owns which part of an advertisement never changes. In protocol 2 all of a fetch's is: capabilities of this git under our settings. Of a push to a
main-only project all but main's commit is. Both are asked of git once for each policy and content of a repository's own configuration, in which the
object format stands. Must not know routes, users or slots.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gitops import pktline
from gitops.fetches import FETCH_SETTINGS, advertise
from gitops.pktline import LineReader
from gitops.push_policy import MAIN_REF, PushPolicy, receive_settings
from gitops.repositories import Repositories
from gitops.serving import Access

_RECEIVE = "git-receive-pack"
_MOST = 4096
_NO_REF = b"capabilities^{}"


@dataclass(frozen=True, slots=True)
class _Subject:
    """What an advertisement depends on, but for refs. `configuration` is the repository's own file; `policy` is None for a fetch."""

    configuration: bytes
    policy: PushPolicy | None
    protocol: str


class Advertisements:
    """The advertisements of all repositories. Remembers at most 4,096 answers, each of a few hundred bytes."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories
        self._known: dict[_Subject, bytes] = {}

    async def recall(self, access: Access, service: str, protocol: str) -> bytes | None:
        """Return the whole answer if it needs no process.

        Raises:
            UnknownProject, StorageFailed: as `Repositories.head` does.
        """
        subject = self._subject(access, service, protocol)
        known = self._known.get(subject) if subject is not None else None
        if known is None or service != _RECEIVE:
            return known
        return _framed(known, await self._repositories.head(access.project))

    async def ask(self, access: Access, service: str, protocol: str) -> bytes:
        """Ask git, and remember of its answer what will not change.

        Raises:
            GitFailed: the repository cannot be read.
        """
        subject = self._subject(access, service, protocol)
        settings = receive_settings(access.policy) if service == _RECEIVE else FETCH_SETTINGS
        answer = await advertise(self._repositories.volume.repository(access.project), service, settings, protocol)
        lasting = answer if service != _RECEIVE else _capabilities(answer)
        if subject is not None and lasting is not None:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[subject] = lasting
        return answer

    def _subject(self, access: Access, service: str, protocol: str) -> _Subject | None:
        """Return what the answer depends on; None when it depends on refs that we do not read."""
        lasts = protocol in ("", "version=2") and access.policy.refs == "main" if service == _RECEIVE else protocol == "version=2"
        repository = self._repositories.volume.repository(access.project)
        try:
            return _Subject((repository / "config").read_bytes(), access.policy if service == _RECEIVE else None, protocol) if lasts else None
        except OSError:
            return None


def _capabilities(answer: bytes) -> bytes | None:
    """Return what a push's advertisement says of the server; None when it names another ref than main, or several."""
    lines = [line for line in _lines(answer) if line is not None and not line.startswith(b"# service=")]
    if len(lines) != 1:
        return None
    name, _, capabilities = lines[0].partition(b"\0")
    return capabilities if name.partition(b" ")[2] in (MAIN_REF, _NO_REF) else None


def _framed(capabilities: bytes, main: str | None) -> bytes:
    """Return a push's advertisement (gitprotocol-pack, "Reference Discovery") of main alone, or of no ref."""
    nothing = "0" * (64 if b"object-format=sha256" in capabilities else 40)
    line = (main or nothing).encode("ascii") + b" " + (MAIN_REF if main else _NO_REF) + b"\0" + capabilities
    return pktline.encode(f"# service={_RECEIVE}\n".encode()) + pktline.FLUSH + pktline.encode(line) + pktline.FLUSH


def _lines(answer: bytes) -> Iterator[bytes | None]:
    reader = LineReader()
    reader.feed(answer)
    return reader.lines()
