"""Any interleaving of adding, taking, finishing and waiting on the key queue, against a few sets.

The machine plays the workers, the events and the clock. `waiting` are keys that must come, in this order but for those in work; `working`
keys that were taken; `due` when a delayed key comes.
"""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from foundation.clock import FakeClock
from reconcile.runtime.keyqueue import Backoff, KeyQueue

T = TypeVar("T")
KEYS = st.sampled_from("abcd")
SECONDS = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])
BACKOFF = Backoff(first_s=0.25, limit_s=4.0)


class KeyQueueMachine(RuleBasedStateMachine):
    """A queue whose `run` runs, and up to three workers that may wait in `get`."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.queue: KeyQueue[str] = KeyQueue(self.clock, backoff=BACKOFF)
        self.ready: list[str] = []
        self.again: set[str] = set()
        self.working: set[str] = set()
        self.due: dict[str, float] = {}
        self.failures: dict[str, int] = {}
        self.getters: list[asyncio.Task[str]] = []
        self.running = self.do(self.start(self.queue.run()))
        self.settle()

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        """Add a key, perhaps one that waits or is in work."""
        self.queue.add(key)
        self.expect(key)
        self.settle()

    @rule(key=KEYS, seconds=SECONDS)
    def add_after(self, key: str, seconds: float) -> None:
        """Add a key later; the earliest delay counts."""
        self.queue.add_after(key, seconds)
        self.expect_after(key, seconds)
        self.settle()

    @rule(key=KEYS)
    def retry(self, key: str) -> None:
        """Ask for another look after a failure: each in a row waits longer, up to the limit."""
        failures = self.failures.get(key, 0)
        delay_s = self.queue.retry(key)
        assert delay_s == min(0.25 * 2**failures, 4.0)
        self.failures[key] = failures + 1
        assert self.queue.failures(key) == failures + 1
        self.expect_after(key, delay_s)
        self.settle()

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        """Begin a key's backoff anew; nothing that waits is lost."""
        self.queue.forget(key)
        self.failures.pop(key, None)

    @precondition(lambda self: len(self.getters) < 3)
    @rule()
    def get(self) -> None:
        """Let a worker take a key, or wait for one."""
        self.getters.append(self.do(self.start(self.queue.get())))
        self.settle()

    @precondition(lambda self: self.getters)
    @rule(with_add=st.one_of(st.none(), KEYS))
    def cancel_get(self, with_add: str | None) -> None:
        """Cancel a waiting worker, perhaps in the very moment in which a key is added for it: the key stays."""
        getter = self.getters.pop(0)
        if with_add:
            self.queue.add(with_add)
            self.expect(with_add)
        getter.cancel()
        self.do(self.wait_for(getter))
        self.settle()

    @precondition(lambda self: self.working)
    @rule(pick=st.integers(0, 3))
    def done(self, pick: int) -> None:
        """Finish a key; one that was added meanwhile comes again."""
        self.finish(sorted(self.working)[pick % len(self.working)])

    @precondition(lambda self: self.working)
    @rule(key=KEYS, pick=st.integers(0, 3))
    def cancelled_worker(self, key: str, pick: int) -> None:
        """Finish a key that was not really looked at, with one more reason to look at it."""
        self.add(key)
        self.done(pick)

    @rule(seconds=st.sampled_from([0.0, 0.25, 0.5, 1.0, 5.0]))
    def advance(self, seconds: float) -> None:
        """Let time pass, to each deadline in turn."""
        end = self.clock.monotonic() + seconds
        self.do(self.clock.advance(seconds))
        for key, at in sorted(self.due.items(), key=lambda entry: entry[1]):
            if at <= end:
                del self.due[key]
                self.expect(key)
        self.settle()

    @rule(seconds=st.sampled_from([0.5, 2.0]), key=KEYS)
    def restart(self, seconds: float, key: str) -> None:
        """End `run`, add something meanwhile, let time pass, and begin it again: delayed keys still come."""
        self.running.cancel()
        self.do(self.wait_for(self.running))
        self.add_after(key, 1.0)
        self.do(self.clock.advance(seconds))
        self.running = self.do(self.start(self.queue.run()))
        self.advance(0.0)

    @invariant()
    def is_what_the_sets_say(self) -> None:
        """As many wait as were asked for; it is idle when none waits and none is in work."""
        assert len(self.queue) == len(self.ready) + len(self.again)
        assert self.queue.is_idle == (not self.ready and not self.again and not self.working)
        assert not (self.getters and self.ready), "a worker waits though a key does"

    def teardown(self) -> None:
        """Finish all: every key that was ever asked for comes, and then none."""
        try:
            if sys.exc_info()[0] is None:
                for _ in range(20):
                    self.advance(5.0)
                    for key in sorted(self.working):
                        self.finish(key)
                    if not self.getters:
                        self.get()
                assert [*self.ready, *self.again, *self.working, *self.due] == []
                assert self.queue.is_idle
        finally:
            for task in (*self.getters, self.running):
                task.cancel()
                self.do(self.wait_for(task))
            self.runner.close()

    # -- small steps ---------------------------------------------------------------------------------------------------------------------

    def finish(self, key: str) -> None:
        """Say that a look is over."""
        self.queue.done(key)
        self.working.discard(key)
        if key in self.again:
            self.again.discard(key)
            self.ready.append(key)
        self.settle()

    def expect(self, key: str) -> None:
        """Note that a key must come."""
        if key in self.working:
            self.again.add(key)
        elif key not in self.ready:
            self.ready.append(key)

    def expect_after(self, key: str, seconds: float) -> None:
        """Note that a key must come later."""
        if seconds <= 0:
            self.expect(key)
        elif (at := self.clock.monotonic() + seconds) < self.due.get(key, float("inf")):
            self.due.pop(key, None)  # of keys that are due together, the one whose time was set first comes first
            self.due[key] = at

    def settle(self) -> None:
        """Let woken tasks run; whoever took a key took one that was asked for, in order, and that nobody else has."""
        self.do(self.clock.advance(0))
        for getter in [getter for getter in self.getters if getter.done()]:
            self.getters.remove(getter)
            key = getter.result()
            assert self.ready, f"'{key}' came, and nobody had asked for it"
            assert key == self.ready.pop(0), f"'{key}' came out of order"
            assert key not in self.working, f"'{key}' came while it is in work"
            self.working.add(key)

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        """Make a call."""
        return self.runner.run(call)

    async def start(self, call: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begin a call and leave it running."""
        return asyncio.create_task(call)

    async def wait_for(self, task: "asyncio.Task[Any]") -> None:
        """Wait until a cancelled task has ended."""
        await asyncio.gather(task, return_exceptions=True)
