"""A mirror that one process fetches while git servers of other replicas answer from it."""

import asyncio
from pathlib import Path

from foundation.clock import SystemClock
from gitops.repositories import Repositories
from gitops.smart_http import SmartHTTP
from tests.gitops.conftest import Authority, Changes, GitClient, serving
from tests.mirror.conftest import PROJECT, Mirrored
from tests.mirror.https_host import Upstream

ROUNDS = 3


async def test_replica_serves_a_mirror_while_another_process_fetches_it(mirrored: Mirrored, upstream: Upstream, tmp_path: Path) -> None:
    """Clones through a replica are whole while the mirror is made and fetched elsewhere, and after a fetch they have what it brought."""
    (tmp_path / "home").mkdir()
    git = GitClient(tmp_path / "home")
    replica = Repositories(mirrored.repositories.volume, SystemClock())
    async with serving(SmartHTTP(replica, authorize=Authority(), on_change=Changes())) as address:
        url = f"http://{address}/git/{PROJECT.namespace}/{PROJECT.name}.git"
        assert (await git("ls-remote", url, check=False)).status != 0
        for turn in range(ROUNDS):
            tips = {upstream.commit(branch) for branch in ("main", f"topic/{turn}")}
            amid = tmp_path / f"amid-{turn}"
            cloned, _ = await asyncio.gather(git("clone", "-q", "--mirror", url, str(amid), check=False), mirrored.fetch())
            assert cloned.status == 0 or turn == 0, cloned.err
            if cloned.status == 0:
                assert (await git("fsck", "--connectivity-only", cwd=amid)).err in {
                    "",
                    "notice: HEAD points to an unborn branch (main)\nnotice: No default references\n",
                }
            listed = (await git("ls-remote", url)).out
            assert all(tip in listed for tip in tips)
    mirrored.check()
