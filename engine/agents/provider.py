"""An agent as a provider: it takes the place of a model in the matrix, as a judge or as a simulated user (specification 001, agentRef).

Owns what of a request an agent is told. It brings its own prompt, tools and settings, and remembers a conversation itself: a request that goes on with a
thread is said over the thread's own connection, and only what is new in it. Must not know how a conversation is held.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

from engine.agents.dialling import AgentAddress, Dialler, new_trace
from engine.agents.failures import AgentFailures
from engine.agents.session import PATIENCE, AgentSession, Patience
from engine.errors import ProviderError
from engine.providers.credentials import agent_variable
from engine.providers.messages import Message
from engine.providers.port import Chunk, Reply, Request
from engine.providers.retry import Retries
from engine.tools.episode import current_episode
from foundation.clock import Clock

_SPEAKERS: Final = {"user": "User", "assistant": "You"}


class AgentProvider:
    """Asks one agent; every conversation has a connection of its own.

    `spec` has the words `endpoint`, `agent`, `namespace`, and `trouble` where the agent cannot be asked at all: then every request is refused with it.
    What of a request an agent cannot take (sampling, tools, a schema for its reply) is not sent; media, which the question may be about, are refused.
    A request of a thread must be made while an item's episode is open (engine.tools.episode), which ends the connection.
    """

    always_streams = True

    def __init__(self, name: str, spec: Mapping[str, Any], clock: Clock, token: str = "", patience: Patience = PATIENCE) -> None:
        self._address = AgentAddress(str(spec.get("endpoint") or ""), str(spec.get("agent") or name), str(spec.get("namespace") or ""))
        self._trouble = str(spec.get("trouble") or "") or ("" if self._address.endpoint else "it has no endpoint")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._failures = AgentFailures(name, token, agent_variable(self._address.agent))
        self._dialler = Dialler(clock.now)
        self._retries = Retries(clock, patience_s=patience.retry_s)
        self._patience = patience
        self._clock = clock

    @property
    def trouble(self) -> str:
        """Return why a conversation was last made to wait for its beginning, "" once one began."""
        return self._retries.trouble

    async def complete(self, request: Request) -> Reply:
        """Return the reply to `request`.

        Raises:
            ProviderError: there is none.
        """
        async with aclosing(self.stream(request)) as chunks:
            async for chunk in chunks:
                if chunk.reply is not None:
                    return chunk.reply
        raise self._failures.of_fault("its reply has no end")

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the reply to `request` as the agent gives it. Its times count from the message to the end of the reply, without the way to the agent.

        Raises (while iterating):
            ProviderError: it did not come, or broke off.
        """
        self._check(request)
        if not request.thread:
            async with self._open() as alone, aclosing(alone.take(_whole(request))) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        session: AgentSession = await current_episode().connect(f"agent {id(self)} {request.thread}", self._open)
        async with aclosing(session.take(_whole(request) if session.is_fresh else _news(request.messages))) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        """Free what is held. Idempotent."""
        await self._dialler.close()

    def _check(self, request: Request) -> None:
        if self._trouble:
            raise self._failures.of("unavailable", self._trouble, transient=False)
        part = next((part for message in request.messages for part in message.parts if part.get("type") != "text"), None)
        if part is not None:
            raise self._failures.of("invalid_request", f"agents are told text, and a message has a part of type {part.get('type')}", transient=False)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[AgentSession]:
        session = await self._reach()
        try:
            yield session
        finally:
            await session.close()

    async def _reach(self) -> AgentSession:
        """Return a session that has begun, at the latest when patience ends."""
        tries = self._retries.begin()
        while True:
            began = self._clock.monotonic()
            try:
                session = await self._begin()
            except ProviderError as error:
                await tries.pause(error, latency_s=self._clock.monotonic() - began)
            else:
                tries.answered()
                session.attempts = tries.attempts
                return session

    async def _begin(self) -> AgentSession:
        trace = new_trace()
        try:
            url = self._address.url()
        except ValueError as error:
            raise self._failures.of("invalid_request", str(error), transient=False) from None
        socket = await self._dialler.dial(url, {**self._headers, **trace.headers}, self._failures, self._patience.connect_s)
        session = AgentSession(socket, self._failures, self._patience, self._clock)
        session.meta["traceId"] = trace.ident
        try:
            await session.begin()
        except BaseException:
            await session.close()
            raise
        return session


def _news(messages: Sequence[Message]) -> str:
    """Return what was said since the agent last spoke."""
    last = max((place for place, message in enumerate(messages) if message.role == "assistant"), default=-1)
    return "\n\n".join(message.content for message in messages[last + 1 :] if message.role == "user")


def _whole(request: Request) -> str:
    """Return a request as one message to somebody who knows nothing yet: its instructions, what was said so far, and what is said now."""
    last = max((place for place, message in enumerate(request.messages) if message.role == "assistant"), default=-1)
    said = [message for message in request.messages[: last + 1] if message.role in _SPEAKERS and message.content]
    before = "\n\n".join(f"{_SPEAKERS[message.role]}: {message.content}" for message in said)
    told = f"What was said so far:\n\n{before}" if before else ""
    return "\n\n".join(text for text in (request.system, told, _news(request.messages)) if text)
