"""Everything that the conversations of one bundle may reach outside of it: live tools, programs, MCP servers, agents.

Owns which adapter answers a tool, and that servers and agents are asked for their tools once, before the first conversation that may call them.
Built only for bundles that reach outside. Must not know conversations.
"""

import asyncio
import math
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.bundle.model import Bundle, Scenario, Tool
from engine.bundle.outside_names import MCP_PREFIX, programs_needed, servers_needed
from engine.bundle.problems import did_you_mean
from engine.bundle.scenario_prompts import tool_patterns_of
from engine.bundle.services import A2aAgent, McpServer
from engine.errors import ToolsUnavailable
from engine.permissions import Permissions
from engine.tools.environment import Environment
from engine.tools.port import CallableTool
from engine.tools.processes import Confinement
from engine.tools.web import Web
from foundation.clock import Clock

if TYPE_CHECKING:
    from engine.tools.patient_web import PatientWeb

ASK_AGAIN_S = 5.0
"""So long a server that may be back later is taken to be out: thousands of items do not each wait for it."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why somebody could not be asked, and until when nobody asks again, on the clock."""

    error: ToolsUnavailable
    until: float


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a runner was given to reach outside with: the operator's permissions, and what bundles may see of our environment.

    `patience_s`: for so long a call to a job's endpoint that is out is made again.
    """

    permissions: Permissions
    environment: Environment
    patience_s: float = 0.0


class Outside:
    """What one bundle reaches. Shared by its conversations."""

    def __init__(self, bundle: Bundle, surroundings: Surroundings, clock: Clock) -> None:
        self._bundle = bundle
        self._clock = clock
        self._patience_s = surroundings.patience_s
        self.environment = surroundings.environment
        addresses = surroundings.permissions.addresses
        self.web = Web(addresses)
        self._web_of_job = Web(replace(addresses, allows_private=True))
        self._endpoints: PatientWeb | None = None
        self.confinement = Confinement(bundle.root, surroundings.permissions)
        self._tools: dict[str, CallableTool] = {}
        self._found: dict[str, list[Tool] | _Failure] = {}
        self._completed: dict[str, Bundle] = {}
        self._asking = asyncio.Lock()

    def tool(self, name: str) -> CallableTool | None:
        """Return the tool of this name that answers outside; None without one."""
        found = self._tools.get(name)
        if found is None and name in self._bundle.tools:
            made = self._make(self._bundle.tools[name])
            if made is not None:
                found = self._tools[name] = made
        return found

    async def complete(self, scenario: Scenario) -> Bundle:
        """Return the bundle with the tools of the servers and agents that a scenario may call; each is asked for them once.

        Raises:
            CodeRefused: it may start programs, and they cannot be confined.
            ToolsUnavailable: one of them cannot be asked. One that may be back later is asked again after `ASK_AGAIN_S`.
        """
        async with self._asking:
            bundle = self._completed.get(scenario.id)
            if bundle is None:
                if any(programs_needed(self._bundle, scenario)):
                    await self.confinement.check()
                tools = await self._discover(scenario)
                added = {tool.name: tool for tool in tools}
                self._check_listed(scenario, added)
                bundle = self._completed[scenario.id] = replace(self._bundle, tools={**self._bundle.tools, **added})
            return bundle

    def _check_listed(self, scenario: Scenario, added: Mapping[str, Tool]) -> None:
        """See that the servers list every tool that is allowed by its whole name: one that is never offered would be tested in vain."""
        patterns = tool_patterns_of(self._bundle, scenario, listed=True)
        for server in servers_needed(self._bundle, scenario):
            prefix = f"{MCP_PREFIX}{server.name}__"
            wanted = [
                name for name in patterns if name.startswith(prefix) and not name.endswith("*") and server.tools.passes(name.removeprefix(prefix))
            ]
            for name in wanted:
                if name not in added and name not in self._bundle.tools:
                    hint = did_you_mean(name, [known for known in added if known.startswith(prefix)], otherwise="it lists")
                    raise ToolsUnavailable(f"cannot offer the tool '{name}': MCP server '{server.name}' does not list it", hint=hint)

    async def close(self) -> None:
        """Close what is open. Idempotent."""
        await self.web.close()
        await self._web_of_job.close()

    async def _discover(self, scenario: Scenario) -> list[Tool]:
        try:
            async with asyncio.TaskGroup() as group:
                servers = [group.create_task(self._ask(f"mcp {each.name}", self._server(each))) for each in servers_needed(self._bundle, scenario)]
                agents = [group.create_task(self._ask(f"a2a {each.name}", self._agent(each))) for each in self._bundle.arena.a2a_agents]
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [tool for task in (*servers, *agents) for tool in task.result()]

    async def _ask(self, who: str, asking: Coroutine[Any, Any, list[Tool]]) -> list[Tool]:
        known = self._found.get(who)
        if isinstance(known, _Failure) and known.until <= self._clock.monotonic():
            known = None
        if known is None:
            try:
                known = await asking
            except ToolsUnavailable as error:
                known = _Failure(error, self._clock.monotonic() + ASK_AGAIN_S if error.transient else math.inf)
            self._found[who] = known
        else:
            asking.close()
        if isinstance(known, _Failure):
            raise known.error
        return known

    async def _server(self, server: McpServer) -> list[Tool]:
        from engine.tools.mcp_tools import McpConnection, McpTool  # noqa: PLC0415 - only bundles with servers need it

        connection = McpConnection(server, self.confinement, self.web, self.environment)
        tools = await connection.discover()
        self._tools |= {tool.name: McpTool(tool, connection) for tool in tools}
        return tools

    async def _agent(self, agent: A2aAgent) -> list[Tool]:
        from engine.tools.a2a import MockAgentTool, RemoteAgent, RemoteAgentTool, tools_of  # noqa: PLC0415 - only bundles with agents need it

        if agent.card is not None:
            skills = tools_of(agent, agent.card)
            self._tools |= {tool.name: MockAgentTool(tool, agent, skill) for tool, skill in skills}
        else:
            remote = RemoteAgent(agent, self.web, self.environment, self._clock)
            card, endpoint = await remote.discover()
            skills = tools_of(agent, card)
            self._tools |= {tool.name: RemoteAgentTool(tool, remote, endpoint, skill) for tool, skill in skills}
        return [tool for tool, _ in skills]

    def _make(self, tool: Tool) -> CallableTool | None:
        if tool.mode == "live" and tool.http is not None:
            from engine.tools.http_tool import HttpTool  # noqa: PLC0415 - only bundles with live tools need it

            return HttpTool(tool, tool.http, self._patient().fetch if tool.http.of_job else self.web.fetch, self.environment)
        if tool.mode == "exec" and tool.exec is not None:
            from engine.tools.exec_tool import ExecTool  # noqa: PLC0415 - only bundles with programs need it

            return ExecTool(tool, tool.exec, self.confinement, self.environment)
        return None

    @property
    def troubles(self) -> Mapping[str, str]:
        """Return why calls of the job's registries wait to be made again, by endpoint."""
        return {} if self._endpoints is None else self._endpoints.troubles

    def _patient(self) -> "PatientWeb":
        if self._endpoints is None:
            from engine.tools.patient_web import PatientWeb  # noqa: PLC0415 - only jobs with registries need it

            self._endpoints = PatientWeb(self._web_of_job, self._clock, self._patience_s)
        return self._endpoints
