"""How long one process has been in unbroken contact with the store.

Redis counts its own downtime, and a jump of its clock, as idle time of every lease. So leases are taken over only after one lease time during
which the store answered, ran, and its clock did not jump ahead of ours. Must not know what is asked of the store.
"""

from foundation.clock import Clock


class Contact:
    """Unbroken contact, on the process's own monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None
        self._offset_s: float | None = None

    def heard(self) -> None:
        """Note that the store answered."""
        if self._since is None:
            self._since = self._clock.monotonic()

    def lost(self) -> None:
        """Note that the store did not answer."""
        self._since = None
        self._offset_s = None

    def read_time(self, store_s: float, *, tolerance_s: float) -> None:
        """Note the store's clock, in seconds; a jump ahead of ours by more than `tolerance_s` breaks contact: it makes every lease look older."""
        offset = store_s - self._clock.monotonic()
        if self._offset_s is not None and offset - self._offset_s > tolerance_s:
            self._since = self._clock.monotonic()
        self._offset_s = offset

    def unbroken_s(self) -> float:
        """Return for how many seconds contact has not been broken."""
        return 0.0 if self._since is None else self._clock.monotonic() - self._since
