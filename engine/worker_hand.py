"""What a worker has in hand: leases that wait, run, or have ended and are not yet counted.

Also the values that all parts of a worker share. Must not talk to the queue.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.items import RunUID
from engine.plan import Plan
from engine.queue.port import Lease, WorkQueue
from engine.worker_patience import Patience
from foundation.clock import Clock


@dataclass(frozen=True, slots=True)
class Manner:
    """How a worker works on one run; `worker` is its consumer name, and its seconds are those of WorkerOptions."""

    worker: str
    run_name: str
    concurrency: int
    lease_s: float
    renew_s: float
    grace_s: float


@dataclass(frozen=True, slots=True)
class Assignment:
    """The run a worker works on, and with what."""

    queue: WorkQueue
    run: RunUID
    plan: Plan
    clock: Clock
    patience: Patience
    manner: Manner


class Hand:
    """The leases of one worker, each in one place: waiting (not begun), aside (to run alone), running, or ended (not yet counted)."""

    def __init__(self) -> None:
        self.aside: Lease | None = None
        self._waiting: dict[str, Lease] = {}
        self._running: dict[str, tuple[Lease, asyncio.Task[None]]] = {}
        self._ended: dict[str, Lease] = {}
        self._changed = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Return how many leases are not begun, the one aside left out."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Return how many items run."""
        return len(self._running)

    @property
    def ended(self) -> int:
        """Return how many items have ended and are not counted."""
        return len(self._ended)

    @property
    def busy(self) -> bool:
        """Say whether anything runs or is to be counted."""
        return bool(self._running or self._ended)

    def leases(self) -> list[Lease]:
        """Return all leases in hand."""
        running = [lease for lease, _ in self._running.values()]
        return [*self._waiting.values(), *running, *self._ended.values(), *([self.aside] if self.aside else [])]

    def take(self, leases: Sequence[Lease]) -> list[Lease]:
        """Return those of `leases` that are not in hand yet. What is in hand under an older token is dropped: its work is another's by now."""
        known = {lease.entry: lease for lease in self.leases()}
        for lease in leases:
            if lease.entry in known and known[lease.entry].deliveries != lease.deliveries:
                self.drop(known.pop(lease.entry))
        return [lease for lease in leases if lease.entry not in known]

    def keep_waiting(self, lease: Lease) -> None:
        """Put `lease` last in the line of those to begin."""
        self._waiting[lease.entry] = lease

    def next_waiting(self) -> Lease | None:
        """Take the first of those to begin out of the line."""
        return self._waiting.pop(next(iter(self._waiting)), None) if self._waiting else None

    def give_up_waiting(self) -> list[Lease]:
        """Take out all that is not begun, the one aside left where it is."""
        given = list(self._waiting.values())
        self._waiting.clear()
        self._tell()
        return given

    def give_up_running(self) -> list[Lease]:
        """Take out all that runs, and cancel it."""
        given = [lease for lease, _ in self._running.values()]
        for lease in given:
            self.drop(lease)
        return given

    def begin(self, lease: Lease, task: "asyncio.Task[None]") -> None:
        """Note that `task` runs the item of `lease`."""
        self._running[lease.entry] = (lease, task)

    def end(self, lease: Lease) -> None:
        """Note that the item of `lease` has ended, or was never to be begun."""
        if self._runs(lease):
            del self._running[lease.entry]
        self._ended[lease.entry] = lease
        self._tell()

    def forget(self, lease: Lease) -> None:
        """Note that the ended item is counted, given back, or another's."""
        self._ended.pop(lease.entry, None)
        self._tell()

    def drop(self, lease: Lease) -> None:
        """Give up a lease that is another's by now: cancel what runs. What has ended stays: the queue says what it was worth.

        A newer lease of the same entry, which this worker took over from itself after a stall, is not touched.
        """
        if self._waiting.get(lease.entry) == lease:
            del self._waiting[lease.entry]
        if self.aside == lease:
            self.aside = None
        if self._runs(lease):
            _, task = self._running.pop(lease.entry)
            task.cancel()
        self._tell()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds`, asked after each change."""
        while not holds():
            self._changed.clear()
            await self._changed.wait()

    def _runs(self, lease: Lease) -> bool:
        return lease.entry in self._running and self._running[lease.entry][0] == lease

    def _tell(self) -> None:
        self._changed.set()
