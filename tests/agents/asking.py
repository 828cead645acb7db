"""Asking agents as an item does."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from engine.agents.provider import AgentProvider
from engine.agents.session import Patience
from engine.providers.messages import Message
from engine.providers.port import Request
from engine.tools.episode import begin_episode
from foundation.clock import SystemClock
from tests.agents.scripted_agent import ScriptedAgent, serving

ONCE = Patience(retry_s=0)
"""Tries nothing again."""


class Nowhere:
    """Reaches no tool."""

    def tool(self, name: str) -> None:
        """Find none."""
        del name


def spec_of(endpoint: str, **more: Any) -> dict[str, Any]:
    """Return the spec of an agent, as a plan carries it."""
    return {"type": "agent", "endpoint": endpoint, "agent": "clerk", "namespace": "shop", "from_job": True} | more


@asynccontextmanager
async def asking(agent: ScriptedAgent, *, patience: Patience = ONCE, token: str = "") -> AsyncIterator[AgentProvider]:
    """Serve an agent and ask it, within the episode of one item."""
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(serving(agent.serve))
        provider = AgentProvider("clerk", spec_of(endpoint), SystemClock(), token, patience)
        stack.push_async_callback(provider.close)
        await stack.enter_async_context(begin_episode(Nowhere()))
        yield provider


def turn(*texts: str, thread: str = "turns", **more: Any) -> Request:
    """Return a request of a thread: texts of a user and an assistant in turn."""
    return Request([Message("assistant" if place % 2 else "user", text) for place, text in enumerate(texts)], thread=thread, **more)
