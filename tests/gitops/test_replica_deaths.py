"""Replicas that die by kill -9, with all their git processes, while people push through all of them."""

import subprocess
from pathlib import Path

import pytest

from bench.git_replicas import strike

SEED = 6


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.timeout(600)
def test_deaths_of_replicas_lose_no_push_and_leave_no_lock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever dies, and whenever: what git called accepted is in main, fsck is silent, no lock is left, and every replica takes a push afterwards."""
    if subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets nobody make a process namespace")
    assert strike(tmp_path, deaths=8, seed=SEED), capsys.readouterr().out
