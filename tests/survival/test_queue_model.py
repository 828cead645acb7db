"""The work queue under any interleaving of what workers, controller and misfortune do to it."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.survival.profiles import check
from tests.survival.queue_bench import MemoryBench, ServerBench
from tests.survival.queue_machine import on


@pytest.mark.parametrize("examples", [pytest.param(40, id="quick"), pytest.param(400, marks=pytest.mark.slow, id="long")])
def test_any_interleaving_on_the_memory_queue(examples: int) -> None:
    """Whatever is put, leased, lost, taken over, retried, stopped and put again: each item is in some set or named as missing, and ends recorded once."""
    with closing(MemoryBench()) as bench:
        check(on(bench), examples=examples, steps=20)


@pytest.mark.parametrize("examples", [pytest.param(8, id="quick"), pytest.param(80, marks=pytest.mark.slow, id="long")])
def test_any_interleaving_on_a_server_that_is_killed_and_loses_its_tail(tmp_path: Path, examples: int) -> None:
    """The same on a real server, which is killed and whose append-only file is cut at any byte behind what was durable: it is back at an earlier moment."""
    with closing(ServerBench(tmp_path)) as bench:
        check(on(bench), examples=examples, steps=20)
