"""Answers that are remembered for a few seconds, and questions that are asked once however many wait for the answer.

In bounded memory. Must not know what is asked.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from foundation.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_ANSWERS: Final = 4096


class BriefMemory(Generic[K, V]):
    """Remembers an answer for `seconds`, and of more than `most` answers forgets those first that were kept first."""

    def __init__(self, clock: Clock, seconds: float, *, most: int = MAX_ANSWERS) -> None:
        self._clock = clock
        self._seconds = seconds
        self._most = most
        self._answers: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def recall(self, key: K) -> V | None:
        """Return the answer, None when it is not remembered (any more)."""
        until, answer = self._answers.get(key, (0.0, None))
        return answer if self._clock.monotonic() < until else None

    def keep(self, key: K, answer: V) -> V:
        """Remember an answer from now on, and return it."""
        now = self._clock.monotonic()
        self._answers[key] = (now + self._seconds, answer)
        self._answers.move_to_end(key)
        while len(self._answers) > self._most or next(iter(self._answers.values()))[0] <= now:
            self._answers.popitem(last=False)
        return answer


class Questions(Generic[K, V]):
    """Asks a question once at a time; whoever asks the same meanwhile waits for that answer, or that error."""

    def __init__(self) -> None:
        self._asked: dict[K, asyncio.Future[V]] = {}

    async def ask(self, key: K, question: Callable[[], Awaitable[V]]) -> V:
        """Return the answer. Where the one who asked is cancelled, the next one asks."""
        while (asked := self._asked.get(key)) is not None:
            await asyncio.wait((asked,))
            if not asked.cancelled():
                return asked.result()
        asked = self._asked[key] = asyncio.get_running_loop().create_future()
        try:
            answer = await question()
        except Exception as error:
            asked.set_exception(error)
            asked.exception()  # which is no surprise where nobody else waits
            raise
        else:
            asked.set_result(answer)
            return answer
        finally:
            asked.cancel()  # does nothing to one that is done
            del self._asked[key]
