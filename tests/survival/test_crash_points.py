"""What an armed process does at a crash point, and what an unarmed one does not."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PASSES = "import sys; from foundation.crash import arm, crash_point; arm(sys.argv[1]); [(crash_point('put.before'), crash_point('put.after')) for _ in range(3)]"


def start(spec: str) -> subprocess.Popen[bytes]:
    """Start a process that passes two crash points three times."""
    return subprocess.Popen([sys.executable, "-c", PASSES, spec], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


@pytest.mark.parametrize("spec", ["", "put", "put.before:4", "@/nowhere/order"])
def test_an_unarmed_process_passes(spec: str) -> None:
    """A crash point does nothing unless the process is armed with its whole name, and it is passed as often as told."""
    assert start(spec).wait(30) == 0


@pytest.mark.parametrize("spec", ["put.after", "put.after:3"])
def test_an_armed_process_dies(spec: str) -> None:
    """An armed process dies by SIGKILL at the pass that it was told."""
    assert start(spec).wait(30) == -signal.SIGKILL


def test_one_process_obeys_an_order(tmp_path: Path) -> None:
    """Of two processes with one order file one dies, at the pass that it says; the file is gone, and who died is written down."""
    order = tmp_path / "order"
    order.write_text("put.after:2")
    first = start(f"@{order}")
    assert first.wait(30) == -signal.SIGKILL
    assert (order.exists(), (tmp_path / "order.met").read_text()) == (False, f"put.after {first.pid}\n")
    assert start(f"@{order}").wait(30) == 0


def test_orders_follow_each_other(tmp_path: Path) -> None:
    """The next order is in force as soon as somebody has died of the one before, whoever looks; all who died are written down."""
    order = tmp_path / "order"
    order.write_text("put.before:2\nput.after\nput.before")
    assert [start(f"@{order}").wait(30) for _ in range(3)] == [-signal.SIGKILL] * 3
    assert [line.split()[0] for line in (tmp_path / "order.met").read_text().splitlines()] == ["put.before", "put.after", "put.before"]
    assert not order.exists()


def test_a_process_stands_still(tmp_path: Path) -> None:
    """A process that is told to halt stops at its crash point, and goes on when it is let go."""
    (tmp_path / "order").write_text("put.before halt")
    process = start(f"@{tmp_path / 'order'}")
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert (tmp_path / "order.met").read_text().split() == ["put.before", str(process.pid)]
    process.send_signal(signal.SIGCONT)
    assert process.wait(30) == 0
