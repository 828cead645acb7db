"""One session with an agent: one connection, which is the agent's memory of one conversation.

Owns the order of a session (connected, then turns, each until it is done), its deadlines and its end. A session that broke stays broken: an agent that
is connected anew remembers nothing of what was said. Must not know how addresses are found, nor conversations.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from aiohttp import WSMessage, WSMsgType

from engine.agents.dialling import Socket
from engine.agents.failures import AgentFailures
from engine.agents.frames import Asked, Connected, Failed, Frame, FrameFault, read_frame, write_frame
from engine.agents.reply import ReplyUnderway
from engine.errors import ProviderError
from engine.providers.deadline import Deadline
from engine.providers.port import Attempt, Chunk
from engine.providers.retry import PATIENCE_S
from foundation.clock import Clock

CONNECT_S: Final = 10.0
FIRST_FRAME_S: Final = 30.0
IDLE_S: Final = 120.0
_TOO_BIG: Final = 1009
_ENDINGS: Final = (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an agent is waited for, in seconds: to connect, for its first frame, and from one frame of a reply to the next.

    For `retry_s` a session that does not begin is tried again; nothing was said in it yet.
    """

    connect_s: float = CONNECT_S
    first_frame_s: float = FIRST_FRAME_S
    idle_s: float = IDLE_S
    retry_s: float = PATIENCE_S


PATIENCE: Final = Patience()
"""What an agent may take unless somebody says otherwise."""


class AgentSession:
    """A session that has begun. One turn at a time.

    `meta` is kept with each reply, `attempts` to begin it with the first one; `is_fresh` says that nothing was said yet.
    """

    def __init__(self, socket: Socket, failures: AgentFailures, patience: Patience, clock: Clock) -> None:
        self._socket = socket
        self._failures = failures
        self._patience = patience
        self._clock = clock
        self._ident = ""
        self._ahead: asyncio.Task[WSMessage] | None = None
        self._broken: ProviderError | None = None
        self._unread: ReplyUnderway | None = None
        self.meta: dict[str, str] = {}
        self.attempts: tuple[Attempt, ...] = ()
        self.is_fresh = True

    async def begin(self) -> None:
        """Wait until the agent says that the session has begun.

        Raises:
            ProviderError: it says something else, nothing, or hangs up.
        """
        deadline = Deadline(self._patience.first_frame_s)
        try:
            frame = await self._receive(deadline, "first frame")
        finally:
            deadline.end()
        if isinstance(frame, Failed):
            raise self._failures.of_frame(frame)
        if not isinstance(frame, Connected):
            raise self._failures.of_fault(f"its first frame is '{type(frame).__name__.lower()}', not 'connected'")
        self._ident = frame.session
        self.meta["agentSession"] = frame.session
        self._look_ahead()

    async def take(self, content: str) -> AsyncGenerator[Chunk, None]:
        """Say `content` and yield the reply in chunks; the last one has it whole.

        Closing the generator early leaves the agent talking: the rest is heard, and dropped, before the next turn.

        Raises (while iterating):
            ProviderError: there is none; the session is of no further use.
        """
        if self._broken is not None:
            raise self._broken
        deadline = Deadline(self._patience.idle_s)
        try:
            async with aclosing(self._turn(content, deadline)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ProviderError as error:
            self._broken = error
            error.attempts, self.attempts = self.attempts, ()
            raise
        finally:
            deadline.end()

    async def close(self) -> None:
        """End the session. Idempotent."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)
        await self._socket.close()

    async def _turn(self, content: str, deadline: Deadline) -> AsyncGenerator[Chunk, None]:
        await self._hear_out(deadline)
        await self._check_silent()
        self.is_fresh = False
        began = self._clock.monotonic()
        underway = self._unread = ReplyUnderway(began)
        await self._send(Asked(content), deadline)
        while not underway.is_done:
            frame = await self._receive(deadline, "frame of its reply")
            text = self._taken(underway, frame)
            deadline.move(self._patience.idle_s)
            if text:
                yield Chunk(text)
        self._unread = None
        self._look_ahead()
        attempts, self.attempts = self.attempts, ()
        yield Chunk(reply=replace(underway.reply(dict(self.meta)), attempts=attempts))

    async def _hear_out(self, deadline: Deadline) -> None:
        """Wait for the end of a reply that nobody wanted to hear to its end."""
        while self._unread is not None:
            self._taken(self._unread, await self._receive(deadline, "end of its reply before"))
            deadline.move(self._patience.idle_s)
            if self._unread.is_done:
                self._unread = None
                self._look_ahead()

    def _taken(self, underway: ReplyUnderway, frame: Frame) -> str:
        if isinstance(frame, Failed):
            raise self._failures.of_frame(frame)
        try:
            return underway.take(frame, self._clock.monotonic())
        except FrameFault as fault:
            raise self._failures.of_fault(str(fault)) from None

    def _look_ahead(self) -> None:
        """Listen while it is not the agent's turn to speak: what comes now must not be taken for the next reply."""
        self._ahead = asyncio.create_task(self._socket.receive())

    async def _check_silent(self) -> None:
        await asyncio.sleep(0)  # so that what has come already is heard
        if self._ahead is None or not self._ahead.done():
            return
        frame = self._read(self._ahead.result(), "between two turns")
        if isinstance(frame, Failed):
            raise self._failures.of_frame(frame)
        raise self._failures.of_fault(f"a frame '{type(frame).__name__.lower()}' comes when nothing was asked")

    async def _send(self, frame: Frame, deadline: Deadline) -> None:
        try:
            with deadline:
                await self._socket.send_str(write_frame(frame, self._ident))
        except TimeoutError:
            raise self._failures.of("timeout", f"it took no message within {self._patience.idle_s:g} s", transient=True) from None
        except (ConnectionError, RuntimeError):
            raise self._failures.of_close(self._socket.close_code, "", "before it took the message") from None

    async def _receive(self, deadline: Deadline, awaited: str) -> Frame:
        ahead, self._ahead = self._ahead, None
        try:
            with deadline:
                message = await (self._socket.receive() if ahead is None else ahead)
        except TimeoutError:
            seconds = self._patience.idle_s if self._ident else self._patience.first_frame_s
            raise self._failures.of_silence(seconds, awaited) from None
        finally:
            if ahead is not None and not ahead.done():
                ahead.cancel()
        return self._read(message, "in the middle of a reply" if self._ident else "before it began")

    def _read(self, message: WSMessage, when: str) -> Frame:
        if message.type is WSMsgType.TEXT:
            try:
                return read_frame(message.data, self._ident)
            except FrameFault as fault:
                raise self._failures.of_fault(str(fault)) from None
        if message.type is WSMsgType.BINARY:
            raise self._failures.of_fault("a frame is binary")
        if message.type in _ENDINGS:
            reason = message.extra if message.type is WSMsgType.CLOSE and isinstance(message.extra, str) else ""
            raise self._failures.of_close(self._socket.close_code, reason, when)
        code = getattr(message.data, "code", None)
        raise self._failures.of_fault("a frame is too large" if code == _TOO_BIG else "the stream of frames cannot be read")
