"""What the summaries of a job's pruned runs may come to."""

import os
from pathlib import Path

import pytest

from reconcile.job.history import forget_oldest

BYTES = 100


@pytest.mark.parametrize(
    ("count", "size_bytes", "left"),
    [
        pytest.param(5, 500, "abcde", id="all that fit stay"),
        pytest.param(2, 500, "de", id="beyond the count the oldest go"),
        pytest.param(5, 3 * BYTES, "cde", id="beyond the size the oldest go"),
        pytest.param(0, 0, "e", id="the newest stays whatever its size"),
    ],
)
def test_summaries_of_pruned_runs(tmp_path: Path, count: int, size_bytes: int, left: str) -> None:
    """A job keeps its newest summaries, and no more than a disk can hold of a job that runs for ever."""
    for age, name in enumerate("edcba"):  # made in another order than their names'
        (tmp_path / name).write_bytes(bytes(BYTES))
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    forget_oldest(tmp_path, count=count, size_bytes=size_bytes)
    assert "".join(sorted(path.name for path in tmp_path.iterdir())) == left
