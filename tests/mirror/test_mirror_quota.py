"""How much a mirror may hold altogether."""

import os
from dataclasses import replace

import pytest

from gitops.errors import RemoteCause
from gitops.mirror_limits import MirrorLimits
from tests.mirror.conftest import PROJECT, Mirrored
from tests.mirror.https_host import Upstream


@pytest.fixture
def limits() -> MirrorLimits:
    """Room for two packs of half a megabyte, and not for three."""
    return MirrorLimits(pack_bytes=600_000, repository_bytes=1_200_000)


async def test_a_mirror_does_not_grow_without_bound(mirrored: Mirrored, upstream: Upstream) -> None:
    """A fetch that would take a mirror over its limit is stopped and says so; the mirror answers with what it has, and goes on when the limit is raised."""
    for _ in range(2):
        kept = upstream.commit(files={"a.bin": os.urandom(500_000)})
        await mirrored.fetch()
    wanted = upstream.commit(files={"a.bin": os.urandom(500_000)})
    for _ in range(2):
        failure = await mirrored.failure()
        assert failure.cause is RemoteCause.TOO_LARGE
        assert "the mirror would hold more than 1.14441 MiB" in failure.message
        assert "delete and create the project" in failure.hint
        assert await mirrored.repositories.head(PROJECT) == kept
    assert sum(path.stat().st_size for path in mirrored.path.rglob("*") if path.is_file()) < 1_200_000
    mirrored.check()
    mirrored.limits = replace(mirrored.limits, repository_bytes=2_400_000)
    mirrored.start()
    await mirrored.fetch()
    assert await mirrored.repositories.head(PROJECT) == wanted


async def test_a_mirror_that_is_full_asks_nobody(mirrored: Mirrored, upstream: Upstream) -> None:
    """A mirror over its limit, as after the limit was lowered, begins no fetch."""
    upstream.commit(files={"a.bin": os.urandom(400_000)})
    await mirrored.fetch()
    upstream.commit()
    mirrored.limits = replace(mirrored.limits, repository_bytes=300_000)
    mirrored.start()
    failure = await mirrored.failure()
    assert failure.cause is RemoteCause.TOO_LARGE
    assert "MiB" in failure.message
