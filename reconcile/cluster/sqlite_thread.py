"""The one thread that touches SQLite, and its group commit.

Work that arrives while a commit is being synced shares the next one, so throughput does not hang on the disk's sync time. Each piece of work
is atomic by itself. Must not know what the work does.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from reconcile.cluster.sqlite_file import store_error
from reconcile.errors import StoreUnavailable

T = TypeVar("T")

MAX_BATCH = 128

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Work:
    """One piece of work and who waits for it. `discard`: roll it back though it succeeds (a dry run)."""

    call: Callable[[], Any]
    future: "asyncio.Future[Any]"
    writes: bool
    discard: bool


_Outcome = tuple[_Work, Any, Exception | None]


class StoreThread:
    """Runs work in transactions, in the order of arrival.

    `on_batch` is called in the thread after a batch that wrote was committed; it returns what to call, in the event loop, before those who
    wait are answered. The connection belongs to the thread from now on.
    """

    def __init__(self, connection: sqlite3.Connection, path: str, on_batch: Callable[[], Callable[[], None]]) -> None:
        self._db = connection
        self._path = path
        self._on_batch = on_batch
        self._inbox: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="arena-store", daemon=True)
        self._thread.start()

    async def run(self, call: Callable[[], T], *, writes: bool, discard: bool = False) -> T:
        """Run `call` in the thread, in a transaction, and return its result once that is durable.

        A caller that is cancelled stops waiting; the work is done all the same.

        Raises:
            StoreUnavailable: the store failed or is closed; the work did not take effect.
            Exception: whatever `call` raised; it did not take effect.
        """
        if self._closed:
            raise StoreUnavailable(f"cannot use store '{self._path}': it is closed")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._inbox.put(_Work(call, future, writes, discard))
        return await future

    def post(self, call: Callable[[], object]) -> None:
        """Run `call` as writing work that nobody waits for; a failure is logged."""
        if self._closed:
            return
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_log_failure)
        self._inbox.put(_Work(call, future, writes=True, discard=False))

    async def close(self) -> None:
        """Finish what has arrived, close the file, and refuse everything after. Closing twice is fine."""
        if not self._closed:
            self._closed = True
            self._inbox.put(None)
        await asyncio.to_thread(self._thread.join)

    def _serve(self) -> None:
        while self._serve_next():
            pass
        self._db.close()

    def _serve_next(self) -> bool:
        """Run what arrives next, with all that has arrived with it; say whether more may come. Nothing of it is held on to while the thread waits."""
        first = self._inbox.get()
        batch = [first] if first is not None else []
        open_ = first is not None
        while open_ and len(batch) < MAX_BATCH:
            try:
                work = self._inbox.get_nowait()
            except queue.Empty:
                break
            open_ = work is not None
            batch += [work] if work is not None else []
        if batch:
            self._run(batch)
        return open_

    def _run(self, batch: list[_Work]) -> None:
        """Run a batch in one transaction; if the store fails it, run each piece alone, so that only those that cannot be done fail."""
        writes = any(work.writes for work in batch)
        try:
            self._db.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            outcomes = [self._attempt(work) for work in batch]
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            if len(batch) == 1:
                _answer(batch[0].future.get_loop(), [(batch[0], None, store_error(error, self._path))], None)
                return
            for work in batch:
                self._run([work])
            return
        wake = self._on_batch() if writes else None
        for loop in {work.future.get_loop() for work in batch}:
            _answer(loop, [outcome for outcome in outcomes if outcome[0].future.get_loop() is loop], wake)

    def _attempt(self, work: _Work) -> _Outcome:
        if not work.writes:
            return _call(work)
        self._db.execute("SAVEPOINT work")
        outcome = _call(work)
        if work.discard or outcome[2] is not None:
            self._db.execute("ROLLBACK TO work")
        self._db.execute("RELEASE work")
        return outcome

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")


def _log_failure(future: "asyncio.Future[Any]") -> None:
    error = None if future.cancelled() else future.exception()
    if error is not None:
        _log.warning("store.upkeep_failed", error=str(error))


def _call(work: _Work) -> _Outcome:
    try:
        return work, work.call(), None
    except sqlite3.Error:
        raise
    except Exception as error:  # noqa: BLE001 - handed to the caller, who waits for it
        return work, None, error


def _answer(loop: asyncio.AbstractEventLoop, outcomes: Iterable[_Outcome], wake: Callable[[], None] | None) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_deliver, list(outcomes), wake)


def _deliver(outcomes: list[_Outcome], wake: Callable[[], None] | None) -> None:
    if wake is not None:
        wake()
    for work, result, error in outcomes:
        if work.future.done():
            continue
        if error is not None:
            work.future.set_exception(error)
        else:
            work.future.set_result(result)
