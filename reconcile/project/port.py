"""What the control plane asks of mirrors; `gitops.mirrors.Mirrors` is the one that fetches.

A port, because when and why to fetch is tried out against hours of polls and every kind of failure, and no host has to be made for that.
"""

from typing import Protocol

from gitops.content import ProjectKey
from gitops.mirrors import MirrorState
from gitops.remote import Remote


class MirrorPort(Protocol):
    """Brings mirrors to where their remotes are. Each method may raise RemoteFailed, RepositoryBusy and StorageFailed."""

    async def fetch(self, project: ProjectKey, remote: Remote) -> MirrorState:
        """Make branches and tags what the remote has, and make the mirror if there is none."""

    async def fetch_ref(self, project: ProjectKey, remote: Remote, ref: str) -> bool:
        """Bring one full ref name outside of branches and tags, or remove it when the remote has it no more; say whether it resolves now."""
