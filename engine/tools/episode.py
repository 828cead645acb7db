"""What one conversation has opened outside: sessions with servers, processes; opened at the first call that needs them, closed when it ends.

Owns how long a connection lives. Each is held by a task of its own, because such connections must be closed by the task that opened them. The
conversation in which a call is made is found by context, so that a tool can be shared by all. Must not know what is connected.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from engine.providers.port import ToolSpec
from engine.tools.port import CallableTool, CallFailed, ToolAnswer
from foundation.errors import first_failure

T = TypeVar("T")
Opening = Callable[[], AbstractAsyncContextManager[Any]]

_current: "ContextVar[Episode]" = ContextVar("episode")


class Reach(Protocol):
    """Who has the tools outside (engine.tools.outside.Outside)."""

    def tool(self, name: str) -> CallableTool | None:
        """Return a tool that answers outside, None when there is none of this name."""
        ...


class Episode:
    """The connections of one conversation."""

    def __init__(self, outside: Reach, group: asyncio.TaskGroup) -> None:
        self._outside = outside
        self._group = group
        self._kept: dict[str, asyncio.Future[Any]] = {}
        self._over = asyncio.Event()

    def tool(self, name: str) -> CallableTool | None:
        """Return a tool that answers outside, None when there is none of this name."""
        return self._outside.tool(name)

    async def connect(self, key: str, opening: Opening) -> Any:
        """Return what `opening` opens: once for each `key`, and kept until the conversation ends. Raises what the opening raises, each time."""
        ready = self._kept.get(key)
        if ready is None:
            ready = self._kept[key] = asyncio.get_running_loop().create_future()
            ready.add_done_callback(_seen)
            self._group.create_task(self._hold(ready, opening))
        return await asyncio.shield(ready)

    def end(self) -> None:
        """Close everything."""
        self._over.set()

    async def _hold(self, ready: "asyncio.Future[Any]", opening: Opening) -> None:
        try:
            async with opening() as opened:
                ready.set_result(opened)
                await self._over.wait()
        except asyncio.CancelledError:
            ready.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - what fails after it was open fails the calls that use it, not the conversation
            if not ready.done():
                ready.set_exception(first_failure(error))


class OutsideTool:
    """Stands in a toolbox for a tool that answers outside, whichever conversation calls it."""

    waits = True

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    async def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Answer a call, as the port says."""
        episode = _current.get(None)
        tool = episode.tool(self.spec.name) if episode is not None else None
        if tool is None:
            raise CallFailed("execution", f"tool '{self.spec.name}' cannot be called: nothing outside is connected")
        return await tool.call(arguments)


@contextlib.asynccontextmanager
async def begin_episode(outside: Reach) -> AsyncIterator[Episode]:
    """Begin the connections of the conversation that the block holds."""
    try:
        async with asyncio.TaskGroup() as group:
            episode = Episode(outside, group)
            token = _current.set(episode)
            try:
                yield episode
            finally:
                _current.reset(token)
                episode.end()
    except BaseExceptionGroup as failed:
        raise first_failure(failed) from None


def current_episode() -> Episode:
    """Return the connections of the conversation that is held here.

    Raises:
        LookupError: none is.
    """
    return _current.get()


def _seen(ready: "asyncio.Future[Any]") -> None:
    if not ready.cancelled():
        ready.exception()
