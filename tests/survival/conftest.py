"""What the tests of survival share: an installation that may die, and the control plane by hand of the reconcilers' tests."""

from collections.abc import Iterator

import pytest

from tests.reconcile.conftest import folder, world
from tests.survival.doomed import Doomed

__all__ = ["doomed", "folder", "world"]

LEASE_S = "1"


@pytest.fixture(scope="session")
def doomed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doomed]:
    """Run one installation for all rows of this process: it is killed by each, and each has a namespace of its own."""
    doomed = Doomed(tmp_path_factory.mktemp("doomed"), ARENA_LEASE_SECONDS=LEASE_S, ARENA_ALLOW_NETWORK="127.0.0.0/8")
    yield doomed
    doomed.close()
