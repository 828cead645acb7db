"""The two queues that the model test drives, and what a test does to each: let time pass, lose a tail, lose everything.

A bench lives through many runs. `keep` notes a moment that the store may fall back to; everything before `make_durable` is safe from that.
"""

import asyncio
import copy
import os
import signal
import time
from collections.abc import Collection, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import redis

from engine.errors import QueueUnavailable, RunUnknown
from engine.items import RunUID
from engine.queue.embedded import EmbeddedServer
from engine.queue.keys import GROUP, run_keys
from engine.queue.memory import MemoryWorkQueue
from engine.queue.port import Lease, WorkQueue
from engine.queue.redis import RedisWorkQueue
from foundation.clock import FakeClock, SystemClock
from tests.survival.queue_reference import Reference

T = TypeVar("T")
_DEADLINE_S = 20.0
_LONG_S = 3600.0


class Bench(Protocol):
    """A queue under test. `lease_s` is the lease time, `later_s` a retry's delay that only `pass_time` ends."""

    lease_s: float
    later_s: float

    @property
    def queue(self) -> WorkQueue:
        """The queue as it is now."""

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run one call to its end."""

    def begin(self, run: RunUID) -> None:
        """Begin a run; the store has no earlier moment to fall back to."""

    def end(self) -> None:
        """Forget the run."""

    def pass_time(self, silent: Collection[Lease], living: Collection[Lease]) -> None:
        """Let a lease time pass: `living` are renewed in it, `silent` are not, and every retry is due after it."""

    def get_ready(self, living: Collection[Lease], *, to_take_over: bool) -> None:
        """Bring the worker into such contact that it takes over what has run out, while the living renew theirs."""

    @property
    def is_in_time(self) -> bool:
        """Whether no lease can have run out by itself since `get_ready`."""

    def keep(self, moment: Reference | None, *, in_one_step: bool) -> None:
        """Note what the store holds now (None: not the run). Not `in_one_step`: it came to that by several scripts."""

    def make_durable(self, *, rewritten: bool) -> None:
        """Write all that was done to the disk; `rewritten`: as the store's state, not as its history."""

    def lose_tail(self, kept: float) -> Reference | None:
        """Kill the store and lose the end of what is not durable, all but the share `kept`; return the moment that it fell back to."""

    def lose_everything(self) -> None:
        """Lose the run."""

    def close(self) -> None:
        """End all."""


class MemoryBench:
    """MemoryWorkQueue on a clock by hand; a lost tail is an older copy of it."""

    lease_s = 10.0
    later_s = 9.0
    is_in_time = True

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._clock = FakeClock()
        self._moments: list[tuple[MemoryWorkQueue, Reference | None]] = []
        self._run = RunUID("")
        self.queue = MemoryWorkQueue(self._clock)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run one call."""
        return self._runner.run(call)

    def begin(self, run: RunUID) -> None:
        """Begin anew."""
        self._run, self._moments, self.queue = run, [], MemoryWorkQueue(self._clock)
        self.keep(None, in_one_step=True)

    def end(self) -> None:
        """Forget it."""
        self._moments = []

    def pass_time(self, silent: Collection[Lease], living: Collection[Lease]) -> None:
        """Advance twice by half a lease time, the living renewing each time."""
        del silent
        for _ in range(2):
            self.run(self._clock.advance(self.lease_s / 2))
            self.run(self.queue.renew(self._run, list(living)))

    def get_ready(self, living: Collection[Lease], *, to_take_over: bool) -> None:
        """Do nothing: memory takes over at once."""

    def keep(self, moment: Reference | None, *, in_one_step: bool) -> None:
        """Copy the queue."""
        del in_one_step
        self._moments.append((self._copy(self.queue), copy.deepcopy(moment)))

    def make_durable(self, *, rewritten: bool) -> None:
        """Forget the older copies."""
        del rewritten
        del self._moments[:-1]

    def lose_tail(self, kept: float) -> Reference | None:
        """Go back to a copy, some time later."""
        self.run(self._clock.advance(0.001))
        del self._moments[round(kept * (len(self._moments) - 1)) + 1 :]
        queue, moment = self._moments[-1]
        self.queue = self._copy(queue)
        return copy.deepcopy(moment)

    def lose_everything(self) -> None:
        """Lose the run."""
        self.queue.lose(self._run)

    def close(self) -> None:
        """End the loop."""
        self._runner.close()

    def _copy(self, queue: MemoryWorkQueue) -> MemoryWorkQueue:
        return copy.deepcopy(queue, {id(self._clock): self._clock})


class SkippingClock(SystemClock):
    """The system's clock, of which a test can skip some."""

    skipped_s = 0.0

    def monotonic(self) -> float:
        """Return seconds, those skipped among them."""
        return super().monotonic() + self.skipped_s


@dataclass(frozen=True, slots=True)
class _Moment:
    """Where the file ended when what led here began and when it was done."""

    began: int
    ended: int
    in_one_step: bool
    reference: Reference | None


class ServerBench:
    """RedisWorkQueue on the embedded server; a lost tail is cut from the append-only file, at any byte."""

    lease_s = 1.0
    later_s = _LONG_S

    def __init__(self, folder: Path) -> None:
        self._runner = asyncio.Runner()
        self._server = EmbeddedServer(folder)
        self._folder = folder / "queue" / "appendonlydir"
        self._clock = SkippingClock()
        self._moments: list[_Moment] = []
        self._run = RunUID("")
        self._ready_at = 0.0
        url = self.run(self._server.start())
        self._client = redis.Redis(unix_socket_path=url.removeprefix("unix://"))
        self._base = self._measure_base()
        self.queue = RedisWorkQueue(url, installation="model", clock=self._clock)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run one call."""
        return self._runner.run(call)

    def begin(self, run: RunUID) -> None:
        """Begin anew on the same server."""
        self._run, self._moments = run, []
        self.keep(None, in_one_step=True)

    def end(self) -> None:
        """Drop the run."""
        self.run(self.queue.drop(self._run))

    def pass_time(self, silent: Collection[Lease], living: Collection[Lease]) -> None:
        """Age the silent entries, and let every retry be due."""
        del living
        keys = run_keys("model", self._run)
        for lease in silent:
            self._client.xclaim(keys.items, GROUP, lease.worker, 0, [lease.entry], idle=int(_LONG_S * 1000), justid=True)
        for member in self._client.zrange(self._delayed, 0, -1):
            self._client.zadd(self._delayed, {cast("bytes", member): 0})

    def get_ready(self, living: Collection[Lease], *, to_take_over: bool) -> None:
        """Wait until the server has been up for a lease time, renew, and skip a lease time of contact."""
        deadline = time.monotonic() + _DEADLINE_S
        while to_take_over and int(self._client.info("server")["uptime_in_seconds"]) < self.lease_s:
            assert time.monotonic() < deadline
            self.run(asyncio.sleep(0.02))
        self._ready_at = time.monotonic()
        self.run(self.queue.runs())  # one more word from the server, from which contact counts
        for worker in {lease.worker for lease in living}:
            self.run(self.queue.renew(self._run, [lease for lease in living if lease.worker == worker]))
        self._clock.skipped_s += self.lease_s

    @property
    def is_in_time(self) -> bool:
        """Whether less than a lease time has passed since the renewals."""
        return time.monotonic() - self._ready_at < self.lease_s * 0.9

    def keep(self, moment: Reference | None, *, in_one_step: bool) -> None:
        """Note the length of the append-only file, what is still to be written included."""
        facts = self._client.info("persistence")
        length = int(facts["aof_current_size"]) + int(facts["aof_buffer_length"]) - self._base
        began = self._moments[-1].ended if self._moments else length
        self._moments.append(_Moment(began, length, in_one_step, copy.deepcopy(moment)))

    def make_durable(self, *, rewritten: bool) -> None:
        """Never cut before here."""
        if rewritten:
            self._client.bgrewriteaof()
            self.run(self._until_rewritten())
            self._base = self._measure_base()
            reference, self._moments = self._moments[-1].reference, []
            self.keep(reference, in_one_step=True)
        elif self._file.stat().st_size >= self._moments[-1].ended:
            del self._moments[:-1]

    def lose_tail(self, kept: float) -> Reference | None:
        """Kill the server, cut its file, start it again."""
        os.kill(self._server.pid, signal.SIGKILL)
        self.run(self._until_dead())
        size = self._file.stat().st_size
        least = min(self._moments[0].ended, size)  # the server may have died before it wrote what was of the run before
        cut = least + int(kept * (size - least))
        for moment in self._moments:
            if moment.began < cut < moment.ended and not moment.in_one_step:
                cut = moment.began
        os.truncate(self._file, cut)
        self._moments = [moment for moment in self._moments if moment.ended <= cut] or self._moments[:1]
        self.run(self._server.start())
        self._base = self._measure_base()
        self.run(self._reach())
        reference = copy.deepcopy(self._moments[-1].reference)
        self.keep(reference, in_one_step=True)
        return reference

    def lose_everything(self) -> None:
        """Go back to before the run."""
        self._client.flushall()

    def close(self) -> None:
        """End the server."""
        self._client.close()
        self.run(self.queue.close())
        self.run(self._server.stop())
        self._runner.close()

    @property
    def _file(self) -> Path:
        (file,) = self._folder.glob("*.incr.aof")
        return file

    @property
    def _delayed(self) -> str:
        return run_keys("model", self._run).all()[3]

    def _measure_base(self) -> int:
        """Return by how much the server's count of what it has appended exceeds the file's length."""
        return int(self._client.info("persistence")["aof_current_size"]) - self._file.stat().st_size

    async def _until_dead(self) -> None:
        async with asyncio.timeout(_DEADLINE_S):
            while self._server.is_running:  # noqa: ASYNC110 - a killed process tells nobody
                await asyncio.sleep(0.002)

    async def _until_rewritten(self) -> None:
        async with asyncio.timeout(_DEADLINE_S):
            while self._is_rewriting() or len(list(self._folder.glob("*.incr.aof"))) > 1:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.002)

    def _is_rewriting(self) -> bool:
        facts = self._client.info("persistence")
        return bool(facts["aof_rewrite_in_progress"] or facts["aof_rewrite_scheduled"])

    async def _reach(self) -> None:
        """Ask until the queue's connections are new ones."""
        async with asyncio.timeout(_DEADLINE_S):
            while True:
                try:
                    await self.queue.state(self._run)
                except QueueUnavailable:
                    continue
                except RunUnknown:
                    return
                return
