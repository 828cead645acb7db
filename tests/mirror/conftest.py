"""What the tests of mirrors share: a host, a mirror of one of its repositories, and names that only these tests resolve."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network, ip_address
from pathlib import Path
from uuid import uuid4

import pytest

from foundation.addresses import Address, AddressPolicy, resolve
from foundation.clock import Clock, SystemClock
from gitops.content import ContentVolume, ProjectKey
from gitops.errors import RemoteFailed
from gitops.mirrors import MirrorLimits, Mirrors, MirrorState
from gitops.remote import Credentials, Remote
from gitops.repositories import Repositories
from tests.mirror.https_host import HttpsHost, Upstream, git, https_host, is_installed

PROJECT = ProjectKey("team", "prompts")
LOOPBACK = AddressPolicy((IPv4Network("127.0.0.0/8"),))
NAMES: dict[str, Sequence[str]] = {"git.example.test": ["127.0.0.1"]}


def names_of(addresses: Mapping[str, Sequence[str]]) -> Callable[[str, int], Sequence[Address]]:
    """Return a resolver that knows some names of its own."""

    def lookup(host: str, port: int) -> Sequence[Address]:
        return [ip_address(address) for address in addresses[host]] if host in addresses else resolve(host, port)

    return lookup


@dataclass
class Mirrored:
    """A mirror under test, and the remote that it follows."""

    repositories: Repositories
    clock: Clock
    limits: MirrorLimits
    remote: Remote
    project: ProjectKey = PROJECT
    _open: list[Mirrors] = field(default_factory=list)

    @property
    def mirrors(self) -> Mirrors:
        """Return the mirrors that were started last."""
        return self._open[-1]

    def start(self, addresses: AddressPolicy = LOOPBACK, names: Mapping[str, Sequence[str]] | None = None) -> None:
        """Start anew, as a new process would, with names that only these tests resolve."""
        known = NAMES if names is None else names
        self._open.append(Mirrors(self.repositories, self.clock, addresses=addresses, limits=self.limits, resolver=names_of(known)))

    def close(self) -> None:
        """Close what was started."""
        for mirrors in self._open:
            mirrors.close()

    @property
    def path(self) -> Path:
        """Return the mirror's repository."""
        return self.repositories.volume.repository(self.project)

    async def fetch(self) -> MirrorState:
        """Fetch once."""
        return await self.mirrors.fetch(self.project, self.remote)

    async def failure(self) -> RemoteFailed:
        """Fetch once, and return why it failed."""
        with pytest.raises(RemoteFailed) as caught:
            await self.fetch()
        return caught.value

    def refs(self) -> dict[str, str]:
        """Return all refs of the mirror as git reads them."""
        lines = git("--git-dir", str(self.path), "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return {name: target for name, _, target in (line.partition(" ") for line in lines)}

    def check(self) -> None:
        """Let git look at every object, and see that nothing half done is left."""
        git("--git-dir", str(self.path), "fsck", "--full", "--strict", "--no-dangling")
        assert leftovers(self.path) == []

    def aim(self, url: str = "", **credentials: str) -> "Mirrored":
        """Follow another URL, or with other credentials, from now on."""
        self.remote = replace(self.remote, url=url or self.remote.url, credentials=replace(self.remote.credentials, **credentials))
        return self


def leftovers(repository: Path) -> list[str]:
    """Return the files in a repository that no live process has any use for."""
    objects = repository / "objects"
    found = [*repository.rglob("*.lock"), *objects.rglob("tmp_*"), *objects.rglob("*.keep")]
    return sorted(path.relative_to(repository).as_posix() for path in found if path.name != "arena.lock")


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpsHost]:
    """Run one host for all tests; each has repositories of its own."""
    if not is_installed():
        pytest.skip("nginx, fcgiwrap or git http-backend is not installed")
    with https_host(tmp_path_factory.mktemp("host") / "h") as running:
        yield running


@pytest.fixture
def upstream(host: HttpsHost) -> Upstream:
    """An empty repository on the host."""
    return host.create(f"team/{uuid4().hex[:10]}")


@pytest.fixture
def limits() -> MirrorLimits:
    """The limits of a fetch; a test module may give its own."""
    return MirrorLimits()


@pytest.fixture
def clock() -> Clock:
    """The machine's clock; a test module may give its own."""
    return SystemClock()


@pytest.fixture
def repositories(tmp_path: Path, clock: Clock) -> Repositories:
    """Repositories on an empty volume."""
    return Repositories(ContentVolume(tmp_path / "content"), clock)


@pytest.fixture
def mirrored(upstream: Upstream, host: HttpsHost, repositories: Repositories, clock: Clock, limits: MirrorLimits) -> Iterator[Mirrored]:
    """A mirror of the upstream that was not fetched yet."""
    mirrored = Mirrored(repositories, clock, limits, Remote(upstream.url, Credentials(ca_certificates=host.ca_certificates)))
    mirrored.start()
    yield mirrored
    mirrored.close()
