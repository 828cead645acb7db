"""What a run says of the commit that it took: an ambiguous name, and files that are not what they seem."""

import asyncio
import subprocess

from tests.reconcile.conftest import BUNDLE, World

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"


async def test_an_ambiguous_name_is_said(world: World) -> None:
    """A name that is a tag and a branch is the tag, as for git, and an event says which ref was taken; a full name is not ambiguous."""
    tagged = await world.project_with()
    head = await world.commit({**BUNDLE, "more": "x"})
    tag = ["git", "-C", str(world.volume.repository(world.project)), "update-ref", "refs/tags/main", tagged]
    await asyncio.to_thread(subprocess.run, tag, check=True)
    await world.job("short", ref="main")
    await world.job("full", ref="refs/heads/main")
    await world.look_at_all(2)
    commits = {run["metadata"]["labels"]["arena.omnia.altairalabs.ai/job"]: run["status"]["source"]["commit"] for run in await world.runs()}
    assert commits == {"short": tagged, "full": head}
    assert await world.events("AmbiguousRef") == ["'main' names more than one ref; as git does, refs/tags/main was taken"]


async def test_a_git_lfs_pointer_is_said(world: World) -> None:
    """A Git LFS pointer is exported as it is; the project and each run of the commit say so in a Warning that names the path."""
    await world.project_with({**BUNDLE, "models/big.bin": POINTER})
    await world.job()
    await world.look_at_all(2)
    said = "'models/big.bin' is a Git LFS pointer and was exported as it is"
    assert await world.events("LFSPointer") == [said] * 2
