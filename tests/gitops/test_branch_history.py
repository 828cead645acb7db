"""Branches of a repository, and where their histories part."""

import pytest

from gitops.content import ContentVolume
from gitops.errors import GitFailed
from gitops.repositories import Repositories
from tests.gitops.conftest import PROJECT, GitClient

HISTORY = b"""\
commit refs/heads/main
mark :1
committer T <t@localhost> 1700000000 +0000
data 1
a
M 644 inline a
data 1
a
commit refs/heads/side/deep
mark :2
committer T <t@localhost> 1700000001 +0000
data 1
b
from :1
M 644 inline b
data 1
b
commit refs/heads/main
mark :3
committer T <t@localhost> 1700000002 +0000
data 1
c
from :1
M 644 inline c
data 1
c
commit refs/heads/orphan
mark :4
committer T <t@localhost> 1700000003 +0000
data 1
d
M 644 inline d
data 1
d
tag v1
from :3
tagger T <t@localhost> 1700000004 +0000
data 1
t
"""


@pytest.fixture
async def tips(repositories: Repositories, volume: ContentVolume, git: GitClient) -> dict[str, str]:
    """A repository with three branches and a tag; its tips."""
    await repositories.create(PROJECT)
    stream = volume.root / "history"
    stream.write_bytes(HISTORY)
    await git("-c", f"alias.take=!git -C {volume.repository(PROJECT)} fast-import --quiet < {stream}", "take")
    return await repositories.branches(PROJECT)


@pytest.mark.parametrize("packed", [pytest.param(False, id="loose"), pytest.param(True, id="packed")])
async def test_branches_and_their_tips(
    tips: dict[str, str], repositories: Repositories, volume: ContentVolume, git: GitClient, *, packed: bool
) -> None:
    """Every branch is there by its full name, and nothing but branches; our pins are none."""
    await repositories.pin(PROJECT, "uid-1", tips["refs/heads/main"])
    if packed:
        await git("-C", str(volume.repository(PROJECT)), "pack-refs", "--all")
    found = await repositories.branches(PROJECT)
    assert list(found) == ["refs/heads/main", "refs/heads/orphan", "refs/heads/side/deep"]
    assert found == tips


async def test_merge_base(tips: dict[str, str], repositories: Repositories) -> None:
    """It is where two histories part; None when they share nothing; a commit that is not there is an error, never None."""
    main, side, orphan = (tips[f"refs/heads/{name}"] for name in ("main", "side/deep", "orphan"))
    base = await repositories.merge_base(PROJECT, main, side)
    assert base not in (None, main, side)
    assert await repositories.merge_base(PROJECT, side, side) == side
    assert await repositories.merge_base(PROJECT, main, orphan) is None
    with pytest.raises(GitFailed):
        await repositories.merge_base(PROJECT, main, "1" * 40)
