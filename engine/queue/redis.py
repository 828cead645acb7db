"""RedisWorkQueue: the work queue on a Redis-protocol server.

Leases are the pending list of a stream's consumer group (delivery count = crash count), so ordinary Redis tools see them; everything that
changes several facts is a script. Owns when which script runs. Must not know what a worker or a run controller does.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from engine.errors import QueueUnavailable, RunSettled, RunUnknown
from engine.items import ItemError, RunUID, Verdict
from engine.queue.accounting import nano_usd
from engine.queue.contact import Contact
from engine.queue.keys import owner_key, run_keys, run_of, runs_pattern
from engine.queue.port import CellCounts, Counted, Lease, QueueState, Refusal, RunMeta, StopReason
from engine.queue.settings_check import problems_of
from engine.queue.store import Argument, RedisStore
from engine.queue.users import RedisRunUsers
from engine.queue.wire import ANSWERS, counting, read_cells, read_leases, read_state, span, tokens
from engine.records import Record, bare_record
from foundation.clock import Clock, SystemClock
from foundation.crash import crash_point

SETTLED_MARK_S = 24 * 3600
_TAKE_OVER_LOOKS = 4
_CLOCK_TOLERANCE = 1 / 3
_LEAST_JUMP_S = 1.0
_NOTHING_SEEN = "0"
_READ_AT_ONCE = 50
"""So many records are decoded (a fifth of a millisecond each) before others on the loop get their turn."""


class RedisWorkQueue:
    """WorkQueue on the server at `url`; keys begin with `arena:<installation>:`.

    One object serves one process; calls may overlap. It needs Redis 7 or Valkey, `noeviction` and an append-only file (`check`).
    """

    def __init__(self, url: str, *, installation: str, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._contact = Contact(self._clock)
        self._store = RedisStore(url, self._contact)
        self.installation = installation
        self._unsure: set[tuple[RunUID, str]] = set()
        self._next_take_over: dict[tuple[RunUID, str], float] = {}

    async def pin(self, run: RunUID, meta: RunMeta) -> None:
        """Create the run's keys, or find them as they are."""
        budget: Argument = "" if meta.budget_usd is None else nano_usd(meta.budget_usd)
        await self._script("pin", run, meta.plan_digest, meta.items, budget, meta.installation or self.installation)

    async def publish_plan(self, run: RunUID, data: bytes) -> None:
        """Lay the plan where workers find it."""
        await self._script("publish", run, _digest(data), data)

    async def plan(self, run: RunUID) -> bytes:
        """Return the published plan, checked against the pinned digest."""
        digest, data = await self._script("plan", run)
        if data is None or _digest(data) != digest.decode():
            raise RunUnknown(f"cannot read the plan of run '{run}': {'it is not published' if data is None else 'its bytes do not match its digest'}")
        return bytes(data)

    async def put(self, run: RunUID, chunk: int, items: Sequence[tuple[int, str]], *, last: bool) -> None:
        """Queue one chunk of items, once a chunk number."""
        crash_point("put.before")
        await self._script("put", run, chunk, int(last), *(word for item in items for word in item))
        crash_point("put.after")

    async def lease(self, run: RunUID, *, worker: str, limit: int, seconds: float) -> list[Lease]:
        """Take up to `limit` items."""
        if limit < 1:
            return []
        me = (run, worker)
        find_again = me in self._unsure
        self._unsure.add(me)
        take_over = await self._may_take_over(me, seconds)
        answer = await self._script("lease", run, worker, limit, int(seconds * 1000), int(take_over), int(find_again))
        self._unsure.discard(me)
        self._contact.read_time(int(answer[0]) / 1000, tolerance_s=max(_LEAST_JUMP_S, seconds * _CLOCK_TOLERANCE))
        return read_leases(run, worker, answer)

    async def wait(self, run: RunUID, *, seen: str, seconds: float) -> str:
        """Wait until something may have changed since `seen`."""
        cursor, due_s = await self._look(run)
        if cursor != seen:
            return cursor
        keys = run_keys(self.installation, run)
        items, wake = cursor.split(" ")
        await self._store.wait_for_entry([(keys.items, items), (keys.wake, wake)], min(seconds, due_s))
        return (await self._look(run))[0]

    async def renew(self, run: RunUID, leases: Sequence[Lease]) -> list[Lease]:
        """Extend leases of one worker; return the lost ones."""
        if not leases:
            return []
        positions = await self._script("renew", run, leases[0].worker, *span(leases), *tokens(leases))
        return [leases[int(position) - 1] for position in positions]

    async def complete(self, run: RunUID, completions: Sequence[tuple[Lease, Record]]) -> list[Counted]:
        """Count items and release their leases."""
        if not completions:
            return []
        leases = [lease for lease, _ in completions]
        arguments: list[Argument] = [leases[0].worker, *span(leases)]
        for lease, record in completions:
            arguments += [lease.entry, lease.deliveries, *counting(record)]
        return [ANSWERS[int(number)] for number in await self._script("complete", run, *arguments)]

    async def retry(self, run: RunUID, lease: Lease, *, delay_s: float, error: ItemError) -> bool:
        """Give an item back for another attempt."""
        delay_ms = max(0, int(delay_s * 1000))
        again = (lease.index, lease.attempt + 1, lease.crashes, lease.item)
        return bool(await self._script("retry", run, lease.worker, lease.entry, lease.deliveries, delay_ms, error.kind, *again))

    async def hand_back(self, run: RunUID, leases: Sequence[Lease]) -> None:
        """Return items that were not run to their end."""
        if leases:
            await self._script("hand_back", run, leases[0].worker, *span(leases), *tokens(leases))

    async def stop(self, run: RunUID, reason: StopReason) -> None:
        """Refuse put, lease and retry from now on."""
        await self._script("stop", run, reason)

    async def refuse(self, run: RunUID, refusal: Refusal) -> None:
        """Stop the run because a worker cannot begin it."""
        await self._script("refuse", run, refusal.kind, refusal.message)

    async def skip_unbegun(self, run: RunUID, *, at: datetime, limit: int = 500) -> int:
        """Record unbegun, delayed and orphaned items of a stopped run as skipped."""
        return await self._record_remaining(
            run, lambda index, item, crashes: bare_record(index, item, Verdict.SKIPPED, at=at, crashes=crashes), limit
        )

    async def fail_remaining(self, run: RunUID, error: ItemError, *, at: datetime, limit: int = 500) -> int:
        """Record all uncounted items of a stopped run as errors."""

        def failed(index: int, item: str, crashes: int) -> Record:
            return bare_record(index, item, Verdict.ERROR, at=at, error=error, crashes=crashes)

        return await self._record_remaining(run, failed, limit, whoever_holds_them=True)

    async def state(self, run: RunUID) -> QueueState:
        """Return one consistent look at the run."""
        try:
            return read_state(await self._script("state", run))
        except RunSettled:
            return QueueState(settled=True)

    async def cells(self, run: RunUID) -> dict[str, CellCounts]:
        """Return the counters by `scenario/provider`."""
        keys = run_keys(self.installation, run)
        return read_cells(await self._store.command("HGETALL", keys.cells), await self._store.command("HGETALL", keys.sketches))

    async def records(self, run: RunUID, *, batch: int = 500) -> AsyncIterator[Record]:
        """Yield every record once, unordered."""
        key, cursor, seen = run_keys(self.installation, run).records, 0, bytearray()
        while True:
            cursor, found = await self._store.command("HSCAN", key, cursor, "COUNT", batch)
            for position, (field, data) in enumerate(found.items()):
                if position % _READ_AT_ONCE == 0:
                    await asyncio.sleep(0)
                index = int(field)
                seen.extend(bytes(max(0, index + 1 - len(seen))))
                if not seen[index]:  # HSCAN may show a field twice while the hash grows
                    seen[index] = 1
                    yield Record.from_bytes(data)
            if int(cursor) == 0:
                return

    async def missing(self, run: RunUID) -> list[int]:
        """Return the indexes of the plan that are in no set."""
        return [int(index) for index in await self._script("missing", run)]

    async def put_again(self, run: RunUID, items: Sequence[tuple[int, str]]) -> None:
        """Queue items that `missing` named."""
        await self._script("put", run, "", 0, *(word for item in items for word in item))

    async def record(self, run: RunUID, records: Sequence[Record]) -> int:
        """Count records that no lease stands behind."""
        return int(await self._script("record", run, *(word for record in records for word in ("", *counting(record)))))

    async def settle(self, run: RunUID) -> None:
        """Drop the run's keys and leave the mark."""
        crash_point("settle.keys_before")
        await self._script("settle", run, SETTLED_MARK_S)
        crash_point("settle.keys_dropped")

    async def drop(self, run: RunUID) -> None:
        """Forget the run without a trace."""
        await self._script("settle", run, 0)

    async def runs(self) -> list[RunUID]:
        """Return this installation's runs that have keys."""
        found: set[RunUID] = set()
        cursor = 0
        while True:
            cursor, keys = await self._store.command("SCAN", cursor, "MATCH", runs_pattern(self.installation), "COUNT", 1000)
            found.update(run_of(key.decode()) for key in keys)
            if int(cursor) == 0:
                return sorted(found)

    def users(self, address: str) -> RedisRunUsers:
        """Return the users of runs on the same connections. `address`: the URL by which workers reach the server, without credentials."""
        return RedisRunUsers(self._store, installation=self.installation, address=address, clock=self._clock)

    async def claim(self, owner: str) -> str:
        """Say that the installation's keys are `owner`'s, unless somebody said so before; return whose they are."""
        key = owner_key(self.installation)
        _, found = await self._store.commands([["SET", key, owner, "NX"], ["GET", key]])
        return bytes(found).decode()

    async def check(self) -> list[str]:
        """Say what is wrong with the store's settings."""
        return await problems_of(self._store)

    async def close(self) -> None:
        """Close the connections."""
        await self._store.close()

    async def _script(self, name: str, run: RunUID, *arguments: Argument) -> Any:
        try:
            return await self._store.script(name, run_keys(self.installation, run).all(), arguments)
        except QueueUnavailable as error:
            error.add_note(f"while doing '{name}' for run '{run}'")
            raise

    async def _look(self, run: RunUID) -> tuple[str, float]:
        items, wake, due_ms = await self._script("look", run)
        cursor = f"{items.decode() or _NOTHING_SEEN} {wake.decode() or _NOTHING_SEEN}"
        return cursor, float("inf") if int(due_ms) < 0 else int(due_ms) / 1000

    async def _may_take_over(self, me: tuple[RunUID, str], seconds: float) -> bool:
        """Say whether to look for expired leases now: a few times a lease time, after one lease time of unbroken contact with a running store."""
        now = self._clock.monotonic()
        if self._contact.unbroken_s() < seconds or now < self._next_take_over.get(me, 0.0):
            return False
        self._next_take_over[me] = now + seconds / _TAKE_OVER_LOOKS
        return await self._was_up(seconds)

    async def _was_up(self, seconds: float) -> bool:
        return float((await self._store.info("server"))["uptime_in_seconds"]) >= seconds

    async def _orphans_count(self, run: RunUID) -> bool:
        lease_ms = await self._store.command("HGET", run_keys(self.installation, run).all()[0], "lease_ms")
        seconds = int(lease_ms or 0) / 1000
        return self._contact.unbroken_s() >= seconds and await self._was_up(seconds)

    async def _record_remaining(self, run: RunUID, make: Callable[[int, str, int], Record], limit: int, *, whoever_holds_them: bool = False) -> int:
        orphans = await self._orphans_count(run)
        while True:
            found = await self._script("remaining", run, min(limit, 500), int(orphans), int(whoever_holds_them))
            if not found:
                return 0
            arguments: list[Argument] = []
            for at in range(0, len(found), 4):
                place, index, item, crashes = found[at : at + 4]
                arguments += [place, *counting(make(int(index), item.decode(), int(crashes)))]
            if recorded := int(await self._script("record", run, *arguments)):
                return recorded


def _digest(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"
