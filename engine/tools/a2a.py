"""A2A agents as tools, one a skill: mocks that answer from the bundle, and remote ones (promptkit-format.md 6.6).

Owns the tools' names and schemas, and who answers. The protocol's words are `a2a_wire`'s.
"""

import asyncio
import re
import secrets as randomness
from collections.abc import Mapping
from typing import Any, Final

from engine.bundle.model import Tool
from engine.bundle.services import A2aAgent, AgentCard, AgentSkill
from engine.errors import ToolsUnavailable
from engine.providers.messages import json_text
from engine.providers.port import ToolSpec
from engine.tools.a2a_wire import CARD_PATHS, Endpoint, WireFault, look_request, read_answer, read_card, send_request
from engine.tools.environment import Environment, VariableRefused
from engine.tools.fitting import check_arguments
from engine.tools.http_tool import without
from engine.tools.port import CallFailed, ToolAnswer
from engine.tools.schema import Schema
from engine.tools.toolbox import shortened
from engine.tools.web import Web, WebAnswer, WebError, WebRequest, shown
from foundation.clock import Clock
from foundation.patterns import compile_pattern

DEFAULT_TIMEOUT_S: Final = 60.0
LOOK_AGAIN_S: Final = 0.5
MAX_SKILLS: Final = 200
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")
_NOT_FOUND: Final = 404


def tool_name(card: AgentCard, skill: AgentSkill) -> str:
    """Return the name of the tool that a skill is."""
    return f"a2a__{_word(card.name)}__{_word(skill.id)}"


def tools_of(agent: A2aAgent, card: AgentCard) -> list[tuple[Tool, AgentSkill]]:
    """Return the tools of an agent, one for each skill that its filter lets pass."""
    place = agent.location
    return [
        (Tool(tool_name(card, skill), place.file, skill.description or skill.name, _schema(card, skill), mode="a2a", location=place), skill)
        for skill in card.skills[:MAX_SKILLS]
        if agent.skills.passes(skill.id)
    ]


def _word(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text.lower()).strip("_")


def _schema(card: AgentCard, skill: AgentSkill) -> dict[str, Any]:
    modes = skill.input_modes or card.input_modes
    names = ["query"]
    names += ["image_url", "image_data"] if any(mode.startswith("image/") for mode in modes) else []
    names += ["audio_data"] if any(mode.startswith("audio/") for mode in modes) else []
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": ["query"]}


class MockAgentTool:
    """A skill of an agent that answers from the bundle."""

    waits = False

    def __init__(self, tool: Tool, agent: A2aAgent, skill: AgentSkill) -> None:
        self.spec = ToolSpec(tool.name, tool.description, tool.input_schema)
        self._agent = agent
        self._schema = Schema(tool.input_schema)
        self._rules = [
            (rule, compile_pattern(rule.regex) if rule.regex else None) for rule in agent.rules if not rule.skill or rule.skill == skill.id
        ]

    async def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Answer a call by the first rule that fits, as the port says."""
        check_arguments(dict(arguments), self._schema)
        query = arguments["query"]
        for rule, pattern in self._rules:
            if rule.contains.lower() not in query.lower() or (pattern is not None and pattern.search(query) is None):
                continue
            if rule.error:
                raise CallFailed("execution", f"agent '{self._agent.name}' failed: {rule.error}")
            return ToolAnswer(shortened(json_text({"response": "\n".join(rule.texts)})))
        raise CallFailed("execution", f"agent '{self._agent.name}' has no answer to this")


class RemoteAgent:
    """An agent at an address, shared by conversations."""

    def __init__(self, agent: A2aAgent, web: Web, environment: Environment, clock: Clock) -> None:
        self.agent = agent
        self._web = web
        self._environment = environment
        self._clock = clock
        self._timeout_s = agent.timeout_ms / 1000 or DEFAULT_TIMEOUT_S

    async def discover(self) -> tuple[AgentCard, Endpoint]:
        """Read the agent's card.

        Raises:
            ToolsUnavailable: there is none, or it cannot be used; the message names agent, address and why.
        """
        agent = self.agent
        private, hidden = self._secrets()
        try:
            headers = {**agent.headers, **private}
            for path in ("",) if agent.url.endswith(".json") else CARD_PATHS:
                url = agent.url.rstrip("/") + path
                answer = await self._web.fetch(WebRequest("GET", url, headers, timeout_s=self._timeout_s))
                if answer.status != _NOT_FOUND:
                    break
            if answer.is_good:
                return read_card(answer.body, agent.url)
            cause = f"{shown(url)} answered {answer.status} {answer.reason}"
        except (WebError, WireFault) as error:
            cause = str(error)
        raise self._unavailable(without(cause, hidden))

    async def send(self, endpoint: Endpoint, arguments: Mapping[str, Any], skill: str) -> ToolAnswer:
        """Send a message and return what comes of it.

        Raises:
            CallFailed: the agent failed, or did not answer in time.
        """
        private, hidden = self._secrets()
        try:
            async with asyncio.timeout(self._timeout_s):
                ident = randomness.token_hex(8)
                answer, task = read_answer(await self._post(endpoint, send_request(endpoint, ident, arguments, skill), private))
                while answer is None:
                    await self._clock.sleep(LOOK_AGAIN_S)
                    answer, task = read_answer(await self._post(endpoint, look_request(endpoint, ident, task), private))
                return ToolAnswer(without(answer.text, hidden), answer.parts)
        except TimeoutError:
            cause = f"it did not answer within {self._timeout_s:g} s"
        except (WebError, WireFault) as error:
            cause = str(error)
        raise CallFailed("execution", without(f"agent '{self.agent.name}' ({shown(endpoint.url)}) failed: {cause}", hidden))

    async def _post(self, endpoint: Endpoint, body: bytes, private: Mapping[str, str]) -> bytes:
        headers = {**endpoint.headers, **self.agent.headers, **private}
        answer: WebAnswer = await self._web.fetch(WebRequest("POST", endpoint.url, headers, body, self._timeout_s))
        if not answer.is_good and not answer.content_type.endswith("json"):
            raise WireFault(f"it answered {answer.status} {answer.reason}")
        return answer.body

    def _secrets(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the headers that nobody may read, and what in them is secret."""
        agent = self.agent
        try:
            token = self._environment.value(agent.token_env, f"agent '{agent.name}'") if agent.token_env else agent.token
            hidden = {
                name: self._environment.value(variable, f"header '{name}' of agent '{agent.name}'") for name, variable in agent.headers_from_env
            }
        except VariableRefused as error:
            raise self._unavailable(error.message, transient=False) from None
        authorized = {"Authorization": f"{agent.scheme} {token}"} if token else {}
        return authorized | hidden, (*((token,) if token else ()), *hidden.values())

    def _unavailable(self, cause: str, *, transient: bool = True) -> ToolsUnavailable:
        agent = self.agent
        return ToolsUnavailable(f"{agent.location}: cannot read the card of agent '{agent.name}' ({shown(agent.url)}): {cause}", transient=transient)


class RemoteAgentTool:
    """A skill of a remote agent."""

    waits = True

    def __init__(self, tool: Tool, agent: RemoteAgent, endpoint: Endpoint, skill: AgentSkill) -> None:
        self.spec = ToolSpec(tool.name, tool.description, tool.input_schema)
        self._schema = Schema(tool.input_schema)
        self._agent = agent
        self._endpoint = endpoint
        self._skill = skill

    async def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Answer a call, as the port says."""
        check_arguments(dict(arguments), self._schema)
        answer = await self._agent.send(self._endpoint, arguments, self._skill.id)
        return ToolAnswer(shortened(json_text({"response": answer.text})), answer.parts)
