"""The embedded store under any interleaving of writes, watches and compactions."""

import pytest

from tests.survival.cluster_machine import ClusterMachine
from tests.survival.profiles import check


@pytest.mark.parametrize("examples", [pytest.param(10, id="quick"), pytest.param(100, marks=pytest.mark.slow, id="long")])
def test_any_interleaving_of_writes_and_watches(examples: int) -> None:
    """The store holds what a dict would; conflicts come exactly from stale views; whoever watches, however late, hears of every change once or is told to list again."""
    check(ClusterMachine, examples=examples, steps=20)
