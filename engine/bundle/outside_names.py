"""What of a bundle leads outside of it: which of its tools, servers and agents conversations may come to call.

Owns that rule, for whoever connects and for whoever refuses. Must not know how anything is reached.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.bundle.check_reader import PROGRAM_CHECK
from engine.bundle.model import Bundle, Location, Scenario
from engine.bundle.scenario_prompts import is_named, tool_patterns_of

if TYPE_CHECKING:
    from engine.bundle.services import McpServer

MCP_PREFIX, AGENT_PREFIX = "mcp__", "a2a__"


def servers_needed(bundle: Bundle, scenario: Scenario) -> "list[McpServer]":
    """Return the MCP servers of which a scenario's prompts allow a tool: a server that nobody may call is not started."""
    if not bundle.arena.mcp_servers:
        return []
    patterns = tool_patterns_of(bundle, scenario, listed=True)
    return [server for server in bundle.arena.mcp_servers if any(_leads_to(pattern, f"{MCP_PREFIX}{server.name}__") for pattern in patterns)]


def reaches_outside(bundle: Bundle) -> bool:
    """Say whether a conversation may call anything that does not answer from a tool's own file."""
    own = any(tool.mode in ("live", "exec") for tool in bundle.tools.values())
    return own or bool(bundle.arena.a2a_agents) or bool(bundle.arena.mcp_servers)


def programs_needed(bundle: Bundle, scenario: Scenario) -> Iterator[tuple[Location, str]]:
    """Yield the programs that a scenario's conversations and checks may start: where each is named, and what it is, with its command."""
    for server in servers_needed(bundle, scenario):
        if server.command is not None:
            yield server.location, f"MCP server '{server.name}' is the {server.where}"
    for name in _names_called(bundle, scenario):
        tool = bundle.tools.get(name)
        if tool is not None and tool.mode == "exec" and tool.exec is not None:
            yield tool.location, f"tool '{name}' is the command '{tool.exec}'"
    for check in scenario.checks:
        program = bundle.arena.programs.get(str(check.params.get("eval"))) if check.check == PROGRAM_CHECK else None
        if program is not None:
            yield program.location, f"check '{check.check}' is the command '{program}'"


def _names_called(bundle: Bundle, scenario: Scenario) -> Iterator[str]:
    patterns = tool_patterns_of(bundle, scenario)
    yield from (name for name in bundle.tools if is_named(name, patterns))
    yield from (str(check.params.get("tool")) for check in scenario.checks if check.check == "tool_exec")


def _leads_to(pattern: str, prefix: str) -> bool:
    if not pattern.endswith("*"):
        return pattern.startswith(prefix)
    return pattern[:-1].startswith(prefix) or prefix.startswith(pattern[:-1])
