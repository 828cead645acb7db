"""Answers that are remembered for seconds, and questions that are asked once."""

import asyncio

import pytest

from arena.authorization.memory import BriefMemory, Questions
from foundation.clock import FakeClock


async def test_an_answer_is_forgotten(clock: FakeClock) -> None:
    """An answer is remembered for its seconds, counted from when it was kept, however often it is recalled."""
    memory: BriefMemory[str, int] = BriefMemory(clock, 10.0)
    memory.keep("a", 1)
    await clock.advance(9.9)
    assert memory.recall("a") == 1
    await clock.advance(0.1)
    assert memory.recall("a") is None


async def test_a_newer_answer_counts(clock: FakeClock) -> None:
    """What is kept again is remembered from then on."""
    memory: BriefMemory[str, int] = BriefMemory(clock, 10.0)
    memory.keep("a", 1)
    await clock.advance(9)
    memory.keep("a", 2)
    await clock.advance(9)
    assert memory.recall("a") == 2


async def test_memory_is_bounded(clock: FakeClock) -> None:
    """Of more answers than there is room for, the oldest are forgotten; those whose time is over take no room."""
    memory: BriefMemory[int, int] = BriefMemory(clock, 10.0, most=100)
    for number in range(1000):
        memory.keep(number, number)
    assert (len(memory), memory.recall(899), memory.recall(900)) == (100, None, 900)
    await clock.advance(10)
    memory.keep(0, 0)
    assert len(memory) == 1


class Slow:
    """A question whose answer a test gives."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def __call__(self) -> int:
        """Wait for the answer."""
        self.asked += 1
        return await asyncio.shield(self.answer)


async def started(*coroutines: object) -> list[asyncio.Task[int]]:
    """Start all, and let them come as far as they can."""
    tasks = [asyncio.ensure_future(each) for each in coroutines]  # type: ignore[call-overload]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def test_equal_questions_are_one() -> None:
    """Whoever asks what is being asked already waits for that answer; later it is asked anew."""
    questions: Questions[str, int] = Questions()
    slow = Slow()
    tasks = await started(*(questions.ask("a", slow) for _ in range(50)))
    slow.answer.set_result(7)
    assert await asyncio.gather(*tasks) == [7] * 50
    assert slow.asked == 1
    await questions.ask("a", slow)
    assert slow.asked == 2


async def test_other_questions_do_not_wait() -> None:
    """Another question is asked beside it."""
    questions: Questions[str, int] = Questions()
    slow, quick = Slow(), Slow()
    (waiting,) = await started(questions.ask("a", slow))
    quick.answer.set_result(1)
    assert await questions.ask("b", quick) == 1
    slow.answer.set_result(2)
    assert await waiting == 2


async def test_an_error_is_everybodys() -> None:
    """An error is told to all who wait for the answer, and is not remembered."""
    questions: Questions[str, int] = Questions()
    slow, again = Slow(), Slow()
    tasks = await started(*(questions.ask("a", slow) for _ in range(3)))
    slow.answer.set_exception(ValueError("no answer"))
    for task in tasks:
        with pytest.raises(ValueError, match="no answer"):
            await task
    again.answer.set_result(3)
    assert await questions.ask("a", again) == 3


async def test_who_asks_may_leave() -> None:
    """Where the client that asked goes away, another one that waits asks in its place."""
    questions: Questions[str, int] = Questions()
    slow = Slow()
    first, second, third = await started(*(questions.ask("a", slow) for _ in range(3)))
    first.cancel()
    await started()
    assert slow.asked == 2
    second.cancel()
    await started()
    slow.answer.set_result(9)
    assert await third == 9
    assert slow.asked == 3
    assert first.cancelled()
