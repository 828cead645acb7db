"""A time by which something must come, that moves often: each event of a stream moves it on.

Measured by the event loop. Must not know what is waited for.
"""

import asyncio
from typing import Any


class Deadline:
    """Interrupts its task while it is entered and its time is over, with TimeoutError, however often the time is moved.

    One timer, armed again only when it fires or would fire too late: `asyncio.timeout` would make and cancel a timer for each piece of a stream.
    """

    __slots__ = ("_armed_at", "_cancelling", "_fired", "_handle", "_limit_s", "_loop", "_task", "_until")

    def __init__(self, limit_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self._armed_at = 0.0
        self._cancelling = 0
        self._fired = False
        self.move(limit_s)

    def move(self, limit_s: float) -> None:
        """Begin anew: the next thing must come within `limit_s` from now."""
        self._limit_s = limit_s
        self._until = self._loop.time() + limit_s
        if self._handle is None or self._until < self._armed_at:
            self._arm()

    def end(self) -> None:
        """Stop watching."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        self.end()
        self._armed_at = self._until
        self._handle = self._loop.call_at(self._until, self._check)

    def _check(self) -> None:
        self._handle = None
        if self._until > self._loop.time():
            self._arm()
        elif self._task is not None:
            self._fired = True
            self._task.cancel()

    def __enter__(self) -> None:
        if self._handle is None:  # it fired while nobody waited: whoever was slow then, it was not the other side
            self.move(self._limit_s)
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task is not None else 0

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        task, self._task = self._task, None
        if self._fired and task is not None:
            self._fired = False
            if task.uncancel() <= self._cancelling and kind is not None and issubclass(kind, asyncio.CancelledError):
                raise TimeoutError(f"nothing came for {self._limit_s:g} s") from None
