"""The end of a process: its work ends first, those who still come are answered for a while, and a part that fails ends it all."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from arena.cluster.lifetime import DRAIN_S, OVERDUE, live
from arena.cluster.probes import Readiness
from foundation.clock import FakeClock
from foundation.errors import ArenaError


class Part:
    """A duty that tells what becomes of it."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self) -> None:
        """Do what there is to do until cancelled."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_order_of_the_end(number: signal.Signals) -> None:
    """At the signal the process is unready and its work ends at once; its faces end when clients have had time to hear of it."""
    clock, work, face = FakeClock(), Part(), Part()
    readiness = Readiness({}, clock)
    living = asyncio.create_task(live([work], [face], readiness, clock))
    await work.begun.wait()
    await face.begun.wait()
    os.kill(os.getpid(), number)
    await work.ended.wait()
    assert any((await readiness.troubles()).values())
    assert not face.ended.is_set()
    await clock.advance(DRAIN_S)
    await living
    assert face.ended.is_set()


async def test_a_part_that_fails() -> None:
    """When a part fails for good everything ends, so that whoever started the process starts it anew."""
    clock, face = FakeClock(), Part()

    async def fail() -> None:
        await face.begun.wait()
        raise ArenaError("cannot go on: a fault")

    with pytest.raises(ExceptionGroup) as failed:
        await live([fail], [face], Readiness({}, clock), clock)
    assert failed.group_contains(ArenaError, match="cannot go on")
    assert face.ended.is_set()


HUNG = """
import asyncio, os, signal, sys, threading
from arena.cluster.lifetime import live
from arena.cluster.probes import Readiness
from foundation.clock import SystemClock

async def work():
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.to_thread(threading.Event().wait)

asyncio.run(live([work], [], Readiness({}, SystemClock()), SystemClock(), overdue_s=float(sys.argv[1])))
"""


def test_a_thread_that_hangs() -> None:
    """A process whose threads do not come back, as on a volume that no longer answers, ends all the same, and says that it was overdue."""
    done = subprocess.run([sys.executable, "-c", HUNG, "0.5"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == OVERDUE
    assert "process.stop_overdue" in done.stdout + done.stderr
