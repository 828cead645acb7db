"""What the queue means, in as few lines as it takes: the reference that the model tests compare every adapter with.

Must not know how any adapter keeps it. It follows an adapter's choices (which items a lease call hands out) and refuses those that are wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.items import Verdict
from engine.queue.port import Counted, Lease
from engine.records import Record

Token = tuple[str, str, int]
"""Who may count an item: consumer, entry, deliveries."""


@dataclass(frozen=True, slots=True)
class Place:
    """An item where it waits or is held, with what it has behind it."""

    index: int
    attempt: int = 1
    crashes: int = 0


@dataclass(slots=True)
class Reference:
    """One run. `silent` are the held tokens whose lease has run out; `delayed` says of each retry whether it is due."""

    items: int
    budget_nano: int | None
    complete: bool = False
    stopped: str = ""
    chunks: set[int] = field(default_factory=set)
    records: dict[int, Record] = field(default_factory=dict)
    queued: list[Place] = field(default_factory=list)
    delayed: dict[Place, bool] = field(default_factory=dict)
    held: dict[Token, Place] = field(default_factory=dict)
    silent: set[Token] = field(default_factory=set)

    def put(self, chunk: int | None, indexes: Sequence[int], *, last: bool = False) -> None:
        """Queue what has no record, once a chunk."""
        if chunk is None or chunk not in self.chunks:
            self.queued += [Place(index) for index in indexes if index not in self.records]
        self.chunks |= set() if chunk is None else {chunk}
        self.complete |= last

    def lease(self, leases: Sequence[Lease], limit: int, *, exact: bool) -> None:
        """Follow a lease call: it hands out as much as is there, of what waits, is due or has run out, with one more crash for each take-over.

        Not `exact`: real time may have made more leases run out than the test did.
        """
        if self.stopped:
            assert not leases, "a stopped run leased an item"
            return
        ready = len(self.queued) + sum(self.delayed.values()) + len(self.silent)
        assert len(leases) == min(limit, ready) or not exact, f"{len(leases)} leased of {ready} that are ready"
        for lease in leases:
            place, token = Place(lease.index, lease.attempt, lease.crashes), token_of(lease)
            before = next((held for held in self.held if held[1] == lease.entry), None)
            if before is None:
                self._take(place)
            else:
                assert before in self.silent or not exact, "a living worker's item was taken over"
                expected = self._let_go(before)
                taken_over = before[0] != lease.worker
                assert place == (replace(expected, crashes=expected.crashes + 1) if taken_over else expected)
                assert token == (lease.worker, lease.entry, before[2] + taken_over)
            self.held[token] = place

    def renew(self, leases: Sequence[Lease]) -> list[Lease]:
        """Extend what is held; return the lost ones."""
        self.silent -= {token_of(lease) for lease in leases}
        return [lease for lease in leases if token_of(lease) not in self.held]

    def complete_item(self, lease: Lease, record: Record) -> Counted:
        """Count by a token that is held; a stale one never counts."""
        mine = token_of(lease) in self.held
        if mine:
            self._let_go(token_of(lease))
        if record.index in self.records:
            return "duplicate"
        return "counted" if mine and self.count(record) else "stale"

    def count(self, record: Record) -> bool:
        """Count a record once an item; stop by the budget."""
        if record.index in self.records:
            return False
        self.records[record.index] = record
        if self.budget_nano is not None and self.spent_nano > self.budget_nano:
            self.stopped = self.stopped or "budget"
        return True

    def retry(self, lease: Lease, *, due: bool) -> bool:
        """Delay the next attempt."""
        if self.stopped or token_of(lease) not in self.held:
            return False
        place = self._let_go(token_of(lease))
        if place.index in self.records:
            return False
        self.delayed[replace(place, attempt=place.attempt + 1)] = due
        return True

    def hand_back(self, lease: Lease) -> None:
        """Queue a held item again as it is."""
        if token_of(lease) in self.held:
            self.queued.append(self._let_go(token_of(lease)))

    def pass_time(self, silent: set[Token]) -> None:
        """Let a lease time pass in which these were not renewed; every retry is due then."""
        self.silent |= silent & set(self.held)
        self.delayed = dict.fromkeys(self.delayed, True)

    def record_rest(self, found: Sequence[Record], verdict: Verdict, *, whoever_holds_them: bool) -> None:
        """Follow a stopped run's counting of all that nobody living holds, or of all that is left."""
        taken = set(self.held) if whoever_holds_them else set(self.silent)
        rest = [*self.queued, *self.delayed, *(replace(place, crashes=place.crashes + 1) for place in map(self._let_go, taken))]
        self.queued, self.delayed = [], {}
        places = {(place.index, place.crashes) for place in rest if place.index not in self.records}
        assert {(record.index, record.crashes) for record in found} <= places
        assert {record.index for record in found} == {index for index, _ in places}
        assert all(record.verdict is verdict and self.count(record) for record in found)

    @property
    def spent_nano(self) -> int:
        """What the records cost."""
        return sum(round((record.cost_usd or 0) * 10**9) for record in self.records.values())

    @property
    def missing(self) -> list[int]:
        """The items in no set."""
        known = {place.index for place in [*self.queued, *self.delayed, *self.held.values()]}
        return [index for index in range(self.items) if self.complete and index not in known and index not in self.records]

    def _take(self, place: Place) -> None:
        if self.delayed.get(place):
            del self.delayed[place]
        else:
            assert place in self.queued, f"{place} was leased out of nowhere"
            self.queued.remove(place)

    def _let_go(self, token: Token) -> Place:
        self.silent.discard(token)
        return self.held.pop(token)


def token_of(lease: Lease) -> Token:
    """Return a lease's fencing token."""
    return lease.worker, lease.entry, lease.deliveries
