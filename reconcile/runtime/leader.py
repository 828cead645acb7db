"""Who of several equal processes leads: the holder of one Lease, as in client-go's leader election.

Owns the Lease and when it counts as lost or free. Every expiry is judged by this process's own monotonic clock, from the moment it saw a change, so
that no wall clock, ours or another's, makes two leaders. Must not know what a leader does.
"""

import asyncio
import random
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from foundation.clock import Clock
from reconcile.cluster.port import LEASE, Cluster, Object, ObjectKey
from reconcile.errors import AlreadyExists, ClusterError, Conflict, LeadershipLost, NotFound
from reconcile.runtime.deadline import within

_MAX_TOLD_S = 3600
_RELEASED_S = 1
_RELEASE_WAIT_S = 5.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """client-go's times, but that a candidate looks more often: every `seek_s`, and up to half as long again, so that a hand-over takes no two seconds.

    A leader that could not renew for `renew_s` stops by itself, long before another takes over after `lease_s`.
    """

    lease_s: int = 15
    renew_s: float = 10.0
    retry_s: float = 2.0
    seek_s: float = 1.0


DEFAULT_TIMES = LeaseTimes()


class Leadership:
    """One candidate for a Lease, in this process. `identity` is unlike that of every other process start, also under the same host name.

    Losing the lead is told at the next renewal, but `remaining_s` knows of it at once: whoever writes asks it first (`fence.py`).
    """

    def __init__(
        self, cluster: Cluster, lease: ObjectKey, clock: Clock, *, times: LeaseTimes = DEFAULT_TIMES, dice: random.Random | None = None
    ) -> None:
        self.identity = f"{socket.gethostname()}_{secrets.token_hex(8)}"
        self._cluster = cluster
        self._lease = lease
        self._clock = clock
        self._times = times
        self._dice = dice or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._seen: Object = {}
        self._seen_s = clock.monotonic()
        self._renewed_s: float | None = None
        self._trouble = ""
        self._log = _log.bind(lease=str(lease), identity=self.identity)

    def remaining_s(self) -> float:
        """Return for how long this process certainly leads, 0 when it does not. It never grows but by a renewal."""
        if self._renewed_s is None:
            return 0.0
        return max(0.0, self._renewed_s + self._times.renew_s - self._clock.monotonic())

    @property
    def trouble(self) -> str:
        """Why the last look at the Lease failed, "" when it did not: who cannot read it leads never."""
        return self._trouble

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait until this process leads, then run `lead` to its end; a new call is a new candidacy.

        While `lead` ends, cancelled or by itself, the Lease is still renewed; then it is released, so that the next leader need not wait.

        Raises:
            LeadershipLost: the Lease could not be renewed in time, or another holds it; `lead` was cancelled and has ended.
        """
        await self._acquire()
        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._renew())
                try:
                    await lead()
                finally:
                    renewing.cancel()
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        finally:
            await self._release()

    async def _acquire(self) -> None:
        while not await self._try("leader.candidate"):
            await self._clock.sleep(self._times.seek_s * self._dice.uniform(1.0, 1.5))
        self._log.info("leader.elected")

    async def _renew(self) -> None:
        """Renew until that was not possible for too long, or another holds the Lease.

        Raises:
            LeadershipLost: always, unless cancelled.
        """
        while self.remaining_s() > 0:
            await self._clock.sleep(min(self._times.retry_s, self.remaining_s()))
            await within(self.remaining_s(), self._try("leader.renewal"), self._clock)
        self._log.warning("leader.lost")
        raise LeadershipLost(f"cannot lead any longer: lease '{self._lease}' was not renewed in time or has another holder")

    async def _try(self, purpose: str) -> bool:
        """Take or renew the Lease if that is possible now; say whether it is ours. A store that fails changes nothing."""
        began_s = self._clock.monotonic()
        try:
            if not await self._write_over_ours():
                stored = await self._read()
                self._trouble = ""
                if not self._may_take(stored):
                    return False
                await self._write(stored)
        except (Conflict, AlreadyExists):
            return False
        except ClusterError as error:
            if error.message != self._trouble:  # it is tried again every second
                self._log.warning("leader.store_failed", purpose=purpose, error=error.message)
            self._trouble = error.message
            return False
        self._renewed_s = began_s  # the Lease runs from when it was asked for at the earliest
        return True

    async def _write_over_ours(self) -> bool:
        """Renew on top of what we wrote last, without a look at it; return False where we do not lead, or somebody has written since."""
        if self.remaining_s() <= 0:
            return False
        try:
            await self._write(self._seen)
        except (Conflict, NotFound):
            return False
        self._trouble = ""
        return True

    async def _read(self) -> Object | None:
        try:
            stored = await self._cluster.get(LEASE, self._lease.namespace, self._lease.name)
        except NotFound:
            return None
        if stored["metadata"]["resourceVersion"] != self._seen.get("metadata", {}).get("resourceVersion"):
            self._seen, self._seen_s = stored, self._clock.monotonic()
        return stored

    def _may_take(self, stored: Object | None) -> bool:
        """Say whether the Lease is ours or free. One that somebody deleted is still its holder's, as far as we have seen it."""
        spec = (stored or self._seen).get("spec") or {}
        holder = spec.get("holderIdentity")
        if holder == self.identity:
            return self._renewed_s is None or self.remaining_s() > 0
        if self._renewed_s is not None:
            self._renewed_s = None  # somebody took it from us: we do not lead, whatever time was left
            return False
        return not holder or self._clock.monotonic() - self._seen_s > _told_s(spec, self._times.lease_s)

    async def _write(self, stored: Object | None) -> None:
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = (stored or self._seen).get("spec") or {}
        is_ours = before.get("holderIdentity") == self.identity
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._times.lease_s,
            "acquireTime": before.get("acquireTime", now) if is_ours else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + bool(before and not is_ours),
        }
        await self._store(stored, spec)

    async def _store(self, stored: Object | None, spec: Object) -> None:
        """Write the Lease; on top of what was read, or not at all."""
        if stored is None:
            metadata = {"namespace": self._lease.namespace, "name": self._lease.name}
            self._seen = await self._cluster.create({"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec})
        else:
            self._seen = await self._cluster.update({**stored, "spec": spec})
        self._seen_s = self._clock.monotonic()

    async def _release(self) -> None:
        """Give the Lease back if it is certainly ours; otherwise it runs out."""
        certain_s, self._renewed_s = self.remaining_s(), None
        if certain_s <= 0:
            return
        spec = {**self._seen["spec"], "holderIdentity": "", "leaseDurationSeconds": _RELEASED_S}
        try:
            await within(min(certain_s, _RELEASE_WAIT_S), self._store(self._seen, spec), self._clock)
        except ClusterError as error:
            self._log.warning("leader.store_failed", purpose="leader.release", error=error.message)
        else:
            self._log.info("leader.released")


def _told_s(spec: Object, otherwise_s: float) -> float:
    """Return how long the holder said that it may be silent; what makes no sense counts as our own time."""
    told = spec.get("leaseDurationSeconds")
    return float(told) if isinstance(told, int) and 0 < told <= _MAX_TOLD_S else float(otherwise_s)
