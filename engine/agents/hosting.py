"""One session from the server's side: what the client says is answered turn by turn, frame by frame, until one of the two has had enough.

Owns the order of a session and its limits. A client that leaves in the middle of a reply ends it. Must not know who may have a session, or what answers.
"""

import asyncio
import secrets as randomness
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import WSCloseCode, WSMessage, WSMsgType, web

from engine.agents.frames import Asked, Connected, Failed, Frame, FrameFault, read_frame, write_frame
from engine.errors import EngineError, ProviderError
from foundation.errors import first_failure

if TYPE_CHECKING:
    from engine.agents.server import Agent, Conversation

SEND_S: Final = 30.0
_MAX_REASON_BYTES: Final = 123
"""What a close frame holds beside its code."""

_ENDINGS: Final = (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """What one session may use: the size of a message, the time between two of them, and how many turns and refused frames there may be."""

    max_message_bytes: int = 256 << 10
    idle_s: float = 600.0
    max_turns: int = 1000
    max_faults: int = 20


LIMITS: Final = SessionLimits()


class _Over(Exception):
    """The session is over: with which code, and why."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class HostedSession:
    """One session; `stopping` is set when the server wants it to end after the turn that is under way."""

    def __init__(self, connection: web.WebSocketResponse, limits: SessionLimits, stopping: asyncio.Event) -> None:
        self.ident = randomness.token_hex(16)
        self.turns = 0
        self._connection = connection
        self._limits = limits
        self._stopping = stopping
        self._frames: asyncio.Queue[Frame | None] = asyncio.Queue()
        self._faults = 0

    async def hold(self, agent: "Agent") -> None:
        """Hold the session to its end, and close the connection."""
        code, reason = int(WSCloseCode.GOING_AWAY), "the server stops"
        try:
            async with agent.begin(self._frames.put_nowait) as conversation:
                await self._send(Connected(self.ident))
                await self._converse(conversation)
        except Exception as error:  # noqa: BLE001 - whatever it is ends one session, not the server
            code, reason = self._ending(first_failure(error))
        finally:
            await self._connection.close(code=code, message=reason.encode()[:_MAX_REASON_BYTES])

    def _ending(self, error: BaseException) -> tuple[int, str]:
        if isinstance(error, _Over):
            return error.code, error.reason
        if isinstance(error, EngineError):
            return WSCloseCode.INTERNAL_ERROR, error.message
        _log.error("agent_session_failed", session=self.ident, exc_info=error)
        return WSCloseCode.INTERNAL_ERROR, "the agent failed"

    async def _converse(self, conversation: "Conversation") -> None:
        incoming = self._listen()
        try:
            while True:
                asked = self._asked(await self._heard(incoming))
                incoming = self._listen()
                if isinstance(asked, Failed):
                    await self._send(asked)
                else:
                    await self._answer(conversation, asked.content, incoming)
        finally:
            incoming.cancel()
            await asyncio.gather(incoming, return_exceptions=True)

    def _listen(self) -> "asyncio.Task[WSMessage]":
        """Begin to wait for the next message; it is heard while a reply is given, because the client may leave."""
        return asyncio.create_task(self._connection.receive())

    async def _heard(self, incoming: "asyncio.Task[WSMessage]") -> WSMessage:
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            done, _ = await asyncio.wait([incoming, stopping], timeout=self._limits.idle_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        if self._stopping.is_set():
            raise _Over(WSCloseCode.GOING_AWAY, "the server stops")
        if not done:
            raise _Over(WSCloseCode.OK, f"nothing was said for {self._limits.idle_s:g} s")
        return incoming.result()

    def _asked(self, message: WSMessage) -> Asked | Failed:
        if message.type in _ENDINGS:
            raise _Over(WSCloseCode.OK, "")
        if message.type is not WSMsgType.TEXT:
            raise _Over(WSCloseCode.UNSUPPORTED_DATA, "frames are text")
        try:
            frame = read_frame(message.data, self.ident)
            if not isinstance(frame, Asked):
                raise FrameFault("a client sends frames of type message")  # noqa: TRY301 - one place that refuses
            if not frame.content.strip():
                raise FrameFault("the message is empty")  # noqa: TRY301 - same
        except FrameFault as fault:
            self._faults += 1
            if self._faults > self._limits.max_faults:
                raise _Over(WSCloseCode.POLICY_VIOLATION, "too many frames that are none of the protocol's") from None
            return Failed("INVALID_MESSAGE", str(fault))
        self.turns += 1
        if self.turns > self._limits.max_turns:
            raise _Over(WSCloseCode.POLICY_VIOLATION, f"a session has at most {self._limits.max_turns} turns")
        return frame

    async def _answer(self, conversation: "Conversation", content: str, incoming: "asyncio.Task[WSMessage]") -> None:
        async with asyncio.TaskGroup() as group:
            speaking = group.create_task(self._speak(conversation, content))

            def heard(task: "asyncio.Task[WSMessage]") -> None:
                if not task.cancelled() and task.exception() is None and task.result().type in _ENDINGS:
                    speaking.cancel()

            incoming.add_done_callback(heard)
            while (frame := await self._frames.get()) is not None:
                await self._send(frame)

    async def _speak(self, conversation: "Conversation", content: str) -> None:
        try:
            await conversation.answer(content)
        except EngineError as error:
            self._frames.put_nowait(Failed(_code(error), error.message))
        finally:
            self._frames.put_nowait(None)

    async def _send(self, frame: Frame) -> None:
        try:
            async with asyncio.timeout(SEND_S):
                await self._connection.send_str(write_frame(frame, self.ident))
        except (ConnectionError, TimeoutError):
            raise _Over(WSCloseCode.OK, "") from None


def _code(error: EngineError) -> str:
    return f"PROVIDER_{error.kind.upper()}" if isinstance(error, ProviderError) else "AGENT_FAILED"
