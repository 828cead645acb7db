"""What the tests of authorization share: a store, and the ways in that local mode has."""

from collections.abc import AsyncIterator

import pytest

from arena.authorization.entrance import Entrance
from arena.authorization.failures import Failures
from arena.authorization.local_token import LocalToken
from foundation.clock import FakeClock, SystemClock
from reconcile.cluster.sqlite import SqliteCluster
from tests.authorization.headers import TOKEN


@pytest.fixture
async def cluster() -> AsyncIterator[SqliteCluster]:
    """Give a store without projects."""
    found = SqliteCluster(":memory:", SystemClock())
    yield found
    await found.close()


@pytest.fixture
def clock() -> FakeClock:
    """Give a clock that stands still."""
    return FakeClock()


@pytest.fixture
def entrance(clock: FakeClock) -> Entrance:
    """Give the way in of local mode."""
    return Entrance(LocalToken(TOKEN), Failures(clock))
