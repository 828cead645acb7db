"""The embedded store under any interleaving of writes, watches and compactions."""

from tests.survival.cluster_machine import ClusterMachine
from tests.survival.profiles import check


def test_any_interleaving_of_writes_and_watches() -> None:
    """The store holds what a dict would; conflicts come exactly from stale views; whoever watches, however late, hears of every change once or is told to list again."""
    check(ClusterMachine, examples=25, steps=20)
