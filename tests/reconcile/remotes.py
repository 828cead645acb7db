"""Remotes for the tests of reconcilers: repositories of a team in a directory, fetched by git without a network, and every failure on demand.

What a fetch does over https is tried out in tests/mirror, with the real host; here it is when one happens, and what is made of it.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from gitops.content import ProjectKey
from gitops.errors import GitError
from gitops.mirror_refs import BRANCHES, compare, read_refs
from gitops.mirrors import MirrorState
from gitops.remote import Remote
from gitops.repositories import Repositories
from tests.mirror.https_host import Upstream, git

URL = "https://git.example.com/team/prompts.git"
OTHER_URL = "https://git.example.com/other/prompts.git"


class TeamRemotes:
    """A `MirrorPort` over repositories in a directory. `failure`, while it is set, is what every fetch meets; `fetched` are the remotes asked for."""

    def __init__(self, folder: Path, repositories: Repositories, failure: GitError | None = None) -> None:
        self._folder = folder
        self._repositories = repositories
        self._upstreams: dict[str, Upstream] = {}
        self.failure = failure
        self.skipped: tuple[str, ...] = ()
        self.fetched: list[Remote] = []
        self.by_name: list[str] = []

    def upstream(self, url: str = URL) -> Upstream:
        """Return the team's repository at a URL, made empty when it is first asked for."""
        if url not in self._upstreams:
            path = self._folder / f"upstream-{len(self._upstreams)}.git"
            git("init", "-q", "--bare", "--template=", "--initial-branch=main", str(path))
            self._upstreams[url] = Upstream(path, url, path.stem)
        return self._upstreams[url]

    async def fetch(self, project: ProjectKey, remote: Remote) -> MirrorState:
        """Make branches and tags what the remote has."""
        self.fetched.append(remote)
        if self.failure is not None:
            raise self.failure
        await self._repositories.create(project)
        return await asyncio.to_thread(self._fetch, self._repositories.volume.repository(project), remote)

    def _fetch(self, mirror: Path, remote: Remote) -> MirrorState:
        upstream = self.upstream(remote.url)
        before, wanted = read_refs(mirror), read_refs(upstream.path)
        if before.refs != wanted.refs:
            git(
                "--git-dir",
                str(mirror),
                "fetch",
                "-q",
                "--prune",
                "--force",
                str(upstream.path),
                *(f"+refs/{k}/*:refs/{k}/*" for k in ("heads", "tags")),
            )
        named = remote.default_branch.removeprefix(BRANCHES)
        default = f"{BRANCHES}{named}" if named else wanted.head
        if default in wanted.refs:
            git("--git-dir", str(mirror), "symbolic-ref", "HEAD", default)
        after = read_refs(mirror)
        forced = _forced(mirror, before.refs, after.refs)
        changes = compare(before, after, forced)
        return MirrorState(default if default in after.refs else "", changes, skipped=self.skipped, empty=not after.refs)

    async def fetch_ref(self, project: ProjectKey, remote: Remote, ref: str) -> bool:
        """Bring one ref by its full name."""
        self.by_name.append(ref)
        if self.failure is not None:
            raise self.failure
        mirror = self._repositories.volume.repository(project)
        if self.upstream(remote.url).tip(ref) is None:
            await asyncio.to_thread(git, "--git-dir", str(mirror), "update-ref", "-d", ref)
            return False
        await asyncio.to_thread(git, "--git-dir", str(mirror), "fetch", "-q", str(self.upstream(remote.url).path), f"+{ref}:{ref}")
        return True


def _forced(mirror: Path, old: Mapping[str, str], new: Mapping[str, str]) -> list[tuple[str, str]]:
    moved = [(old[ref], new[ref]) for ref in old if ref in new and old[ref] != new[ref]]
    return [pair for pair in moved if git("--git-dir", str(mirror), "rev-list", "-1", pair[0], f"^{pair[1]}")]
