"""One listing of a remote's refs, in this process: what a poll costs when nothing has changed.

Owns the conversation with dulwich's client, and what becomes of a host that does not answer as git does. Must not know the mirror.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from dulwich.client import HttpGitClient
from dulwich.refs import Ref

from foundation.addresses import Address, AddressPolicy, Resolve
from foundation.clock import Clock
from gitops.errors import RemoteCause, RemoteFailed
from gitops.mirror_limits import MirrorLimits
from gitops.remote import Remote, check_url
from gitops.remote_connection import KeptConnections, Origin
from gitops.remote_failures import failed
from gitops.remote_session import RemoteSession
from gitops.tree_names import shown
from gitops.uninterrupted import UninterruptedThreads

if TYPE_CHECKING:
    import urllib3

THREADS = 16
MIRRORED = (b"refs/heads/", b"refs/tags/")
_PROTOCOL = 2
_PEELED = b"^{}"
_OBJECT_ID = {"sha1": re.compile(rb"[0-9a-f]{40}"), "sha256": re.compile(rb"[0-9a-f]{64}")}


@dataclass(frozen=True, slots=True)
class Listing:
    """What a remote has, and how it was reached.

    `refs` are object ids by full name; a name that is not UTF-8 holds surrogates. `head` is the full name of the branch that the remote's HEAD names,
    born or not; "" when it names none. `base_url` is where redirects led, `address` what the connection was pinned to.
    """

    refs: dict[str, str]
    head: str
    object_format: str
    base_url: str
    address: Address


class RemoteListings:
    """Lists remotes, over connections that are kept from one listing to the next."""

    def __init__(self, clock: Clock, addresses: AddressPolicy, limits: MirrorLimits, resolver: Resolve) -> None:
        self._clock = clock
        self._policy = addresses
        self._limits = limits
        self._resolver = resolver
        self._kept = KeptConnections()
        self._threads = UninterruptedThreads(THREADS, "remotes")

    async def list(self, remote: Remote, prefixes: Sequence[bytes] = MIRRORED) -> Listing:
        """Return the remote's refs under the prefixes. Every address of the host is checked, each time.

        Raises:
            RemoteFailed: it cannot be listed.
        """
        problem = check_url(remote.url)
        if problem is not None:
            raise failed(remote, RemoteCause.INVALID, problem, hint="correct spec.external.url")
        try:
            async with asyncio.timeout(self._limits.listing_s):
                session = await self._open(remote)
                return await self._threads.run(lambda: _list(session, remote, prefixes), session)
        except TimeoutError as error:
            words = f"the host does not list its refs within {self._limits.listing_s:g} s"
            raise failed(remote, RemoteCause.TIMED_OUT, words, hint="check the host and the network") from error

    def close(self) -> None:
        """Close the kept connections."""
        self._kept.close()

    async def _open(self, remote: Remote) -> RemoteSession:
        origin = Origin.of(remote)
        try:
            addresses = await self._threads.run(lambda: self._resolver(origin.host, origin.port))
        except OSError as error:
            words = f"the name {origin.host} leads to no address ({(error.strerror or str(error)).lower()})"
            raise failed(remote, RemoteCause.UNREACHABLE, words, hint="check the host's name and this machine's resolver") from error
        refusal = self._policy.refused(origin.host, addresses)
        if refusal is not None:
            hint = f"an operator may allow it: arena up --allow-network {refusal.network}"
            raise RemoteFailed(f"cannot fetch '{remote.url}': {refusal.cause}", cause=RemoteCause.ADDRESS, hint=hint)
        return RemoteSession(remote, addresses, self._kept, self._limits, self._clock.now)


def _list(session: RemoteSession, remote: Remote, prefixes: Sequence[bytes]) -> Listing:
    # dulwich asks its pool for no more than `request` and `headers`.
    client = HttpGitClient(remote.url, pool_manager=cast("urllib3.PoolManager", session))
    try:
        found = client.get_refs("", protocol_version=_PROTOCOL, ref_prefix=[b"HEAD", *prefixes])
        format_name = found.object_format or "sha1"
        refs = {
            name.decode("utf-8", "surrogateescape"): target.decode("ascii")
            for name, target in found.refs.items()
            if target is not None and name.startswith(tuple(prefixes)) and not name.endswith(_PEELED) and _OBJECT_ID[format_name].fullmatch(target)
        }
        head = found.symrefs.get(Ref(b"HEAD"), Ref(b"")).decode("utf-8", "surrogateescape")
    except RemoteFailed:
        raise
    except Exception as error:  # dulwich meets what is no git with whatever error comes up first
        words = f"what answers there does not speak git ({shown(str(error)) or type(error).__name__})"
        raise failed(remote, RemoteCause.PROTOCOL, words, hint="check that spec.external.url names a git repository") from error
    return Listing(refs, head if head.startswith("refs/heads/") else "", format_name, session.base_url, session.address)
