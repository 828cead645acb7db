"""Mirrors: the branches and tags of somebody else's repository, as a bare repository of ours.

Owns the order of a fetch: list, compare, fetch what differs, follow the remote's HEAD, say what changed. A poll that finds nothing new starts no
process and takes no lock. Must not know when a mirror is due, nor who wants it.
"""

from dataclasses import dataclass

from foundation.clock import Clock
from gitops.content import ProjectKey
from gitops.mirror_limits import MirrorLimits
from gitops.mirror_refs import RefChange
from gitops.remote import Remote
from gitops.remote_addresses import AddressPolicy, Resolve, resolve
from gitops.repositories import Repositories

__all__ = ["MirrorLimits", "MirrorState", "Mirrors", "RefChange"]

PUBLIC_ADDRESSES = AddressPolicy()
DEFAULT_LIMITS = MirrorLimits()


@dataclass(frozen=True, slots=True)
class MirrorState:
    """What a look at the remote found.

    `default_branch` is a full name (`refs/heads/main`) that the mirror has: the one that the remote's spec names, or else the remote's HEAD; "" when
    the remote is empty or has no such branch. `changes` are sorted by ref. `fetched` says that git ran. `skipped` are refs whose names no mirror can
    hold, as a person can read them.
    """

    default_branch: str
    changes: tuple[RefChange, ...] = ()
    fetched: bool = False
    skipped: tuple[str, ...] = ()
    empty: bool = False


class Mirrors:
    """The mirrors of one content volume. Safe to use from several tasks and, by flock, from several processes."""

    def __init__(
        self,
        repositories: Repositories,
        clock: Clock,
        *,
        addresses: AddressPolicy = PUBLIC_ADDRESSES,
        limits: MirrorLimits = DEFAULT_LIMITS,
        resolver: Resolve = resolve,
    ) -> None:
        """`resolver` is the system's; tests give names of their own."""
        raise NotImplementedError

    async def fetch(self, project: ProjectKey, remote: Remote) -> MirrorState:
        """Bring the mirror to where the remote is, making it if there is none; one listing and no process when nothing differs.

        Branches and tags are mirrored with prune; `refs/arena` and refs fetched by name stay. A kill at any point leaves refs that name whole
        commits, and the next fetch brings the rest. Concurrent fetches of one project wait for one another, so callers should coalesce.

        Raises:
            RemoteFailed: the cause says why; the mirror answers with what it has.
            RepositoryBusy: somebody else fetches it, for longer than a minute.
            StorageFailed: the volume refused.
        """
        raise NotImplementedError

    async def fetch_ref(self, project: ProjectKey, remote: Remote, ref: str) -> bool:
        """Bring what a spelling names that the mirror lacks; say whether `Repositories.resolve` answers it now.

        A full ref outside of branches and tags (`refs/pull/7/head`) is fetched under its own name, or removed when the remote has it no more. For
        everything else, a full SHA included, branches and tags are fetched once: no commit is ever asked for by its SHA, because a host gives out
        commits of forks that way. `refs/arena` names nothing.

        Raises:
            RemoteFailed, RepositoryBusy, StorageFailed: as `fetch`.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Give up the connections that are kept for the next polls."""
        raise NotImplementedError
