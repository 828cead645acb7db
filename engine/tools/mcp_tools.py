"""MCP servers: their tools, and a session with one for each conversation that calls them (promptkit-format.md 6.5).

Owns names, filters, time limits and what a result becomes. Discovery happens once, in a session of its own; a server that cannot be reached then is
an error that names it, never a score. Must not know how a process or a connection is made.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from engine.bundle.model import Tool
from engine.bundle.services import McpServer
from engine.errors import EngineError, ToolsUnavailable
from engine.providers.messages import json_text
from engine.providers.port import ToolSpec
from engine.tools.arguments import coerce_arguments
from engine.tools.environment import Environment
from engine.tools.episode import current_episode
from engine.tools.exec_tool import program_of
from engine.tools.port import CallFailed, ToolAnswer
from engine.tools.processes import Confinement
from engine.tools.toolbox import shortened
from engine.tools.web import Web
from foundation.errors import first_failure

if TYPE_CHECKING:
    from mcp.client.client import Client

DEFAULT_TIMEOUT_S: Final = 30.0
MAX_TOOLS: Final = 500
MAX_PAGES: Final = 50
MAX_PARTS: Final = 64


class McpConnection:
    """A way to one server, shared by conversations: each opens its own session."""

    def __init__(self, server: McpServer, confinement: Confinement, web: Web, environment: Environment) -> None:
        self.server = server
        self._confinement = confinement
        self._web = web
        self._environment = environment
        self.timeout_s = server.timeout_ms / 1000 or DEFAULT_TIMEOUT_S

    async def discover(self) -> list[Tool]:
        """Return the server's tools that its filter lets pass, under their full names, in the server's order.

        Raises:
            ToolsUnavailable: it cannot be reached or asked; the message names the server, how it is reached, and why.
        """
        from engine.tools import mcp_wire  # noqa: F401, PLC0415 - the second that the package takes is not the server's

        try:
            async with asyncio.timeout(self.timeout_s), self.session() as session:
                found = await session.tools()
        except Exception as error:
            raise self._unavailable(error) from error
        kept = [tool for tool in found if self.server.tools.passes(tool.name)]
        if len(kept) > MAX_TOOLS:
            raise self._unavailable(ValueError(f"it has more than {MAX_TOOLS} tools"))
        unknown = sorted({*self.server.tools.allow, *self.server.tools.block} - {tool.name for tool in found})
        if unknown:
            has = ", ".join(tool.name for tool in found) or "none"
            raise self._unavailable(ValueError(f"its tool_filter names '{unknown[0]}', which it does not have; it has: {has}"))
        return [
            Tool(
                f"mcp__{self.server.name}__{tool.name}",
                self.server.location.file,
                tool.description or "",
                tool.input_schema,
                mode="mcp",
                location=self.server.location,
            )
            for tool in kept
        ]

    @asynccontextmanager
    async def session(self) -> AsyncIterator["McpSession"]:
        """Open a session.

        Raises:
            Exception: whatever the package raises for one that cannot be opened; ToolsUnavailable where we know why.
        """
        from mcp.client.client import Client  # noqa: PLC0415 - a second that only bundles with servers need

        from engine.tools import mcp_wire  # noqa: PLC0415 - same

        reasons: list[Exception] = []
        if self.server.command is not None:
            program = program_of(self.server.command, self._environment, f"MCP server '{self.server.name}'")
            streams: Any = mcp_wire.process_streams(self._confinement, program, reasons.append)
        else:
            streams = mcp_wire.web_streams(self._web, self.server, self.timeout_s)
        try:
            async with Client(streams, read_timeout_seconds=self.timeout_s, cache=None) as client:
                yield McpSession(client, reasons)
        except Exception as error:
            raise (reasons[0] if reasons else error) from error

    def _unavailable(self, error: BaseException) -> ToolsUnavailable:
        server = self.server
        return ToolsUnavailable(
            f"{server.location}: cannot list the tools of MCP server '{server.name}' ({server.where}): {cause_of(error, self.timeout_s)}",
            hint=error.hint if isinstance(error, EngineError) else "",
            transient=server.command is None,
        )


class McpSession:
    """A session with a server. `reasons` grow with what ends its process, of which the package only says that the connection closed."""

    def __init__(self, client: "Client", reasons: Sequence[Exception]) -> None:
        self._client = client
        self._reasons = reasons

    async def tools(self) -> list[Any]:
        """Return all tools, page by page, and at most a few more than `MAX_TOOLS`."""
        found: list[Any] = []
        cursor = None
        for _ in range(MAX_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if not cursor or len(found) > MAX_TOOLS:
                break
        return found

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool; raises what the package raises, or why the process ended."""
        try:
            return await self._client.call_tool(name, arguments)
        except Exception as error:
            if self._reasons:
                raise self._reasons[0] from error
            raise


class McpTool:
    """A tool of a server."""

    waits = True

    def __init__(self, tool: Tool, connection: McpConnection) -> None:
        self.spec = ToolSpec(tool.name, tool.description, tool.input_schema)
        self._connection = connection
        self._name = tool.name.removeprefix(f"mcp__{connection.server.name}__")

    async def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Answer a call in the conversation's own session, as the port says."""
        connection, coerced = self._connection, coerce_arguments(arguments, self.spec.input_schema)
        try:
            async with asyncio.timeout(connection.timeout_s):
                session = await current_episode().connect(f"mcp {connection.server.name}", connection.session)
                result = await session.call(self._name, coerced)
        except Exception as error:
            cause = cause_of(error, connection.timeout_s)
            raise CallFailed(
                "execution", f"tool '{self._name}' of MCP server '{connection.server.name}' ({connection.server.where}) failed: {cause}"
            ) from error
        answer = answer_of(result)
        if result.is_error:
            raise CallFailed("execution", answer.text or f"tool '{self._name}' failed without a word")
        return answer


def answer_of(result: Any) -> ToolAnswer:
    """Return what a result says: its texts, or else its structured content; pictures, sounds and files are parts."""
    texts: list[str] = []
    parts: list[dict[str, Any]] = []
    for block in result.content[:MAX_PARTS]:
        if block.type == "text":
            texts.append(block.text)
        elif block.type in ("image", "audio"):
            parts.append(_media(block.type, block.mime_type, data=block.data))
        elif block.type == "resource":
            resource = block.resource
            if (text := getattr(resource, "text", None)) is not None:
                texts.append(text)
            else:
                parts.append(_media(_family(resource.mime_type or ""), resource.mime_type or "", data=resource.blob))
        elif block.type == "resource_link":
            parts.append(_media(_family(block.mime_type or ""), block.mime_type or "", url=str(block.uri)))
    if not texts and result.structured_content is not None:
        texts.append(json_text(result.structured_content))
    return ToolAnswer(shortened("\n".join(texts)), parts)


def _media(kind: str, mime_type: str, **payload: str) -> dict[str, Any]:
    media: dict[str, Any] = {"mimeType": mime_type} if mime_type else {}
    if "data" in payload:
        media["sizeBytes"] = len(payload["data"]) * 3 // 4 - payload["data"][-2:].count("=")
    return {"type": kind, "media": media | payload}


def _family(mime_type: str) -> str:
    family = mime_type.partition("/")[0]
    return family if family in ("image", "audio", "video") else "document"


def cause_of(error: BaseException, timeout_s: float) -> str:
    """Return why a server failed, in words."""
    error = first_failure(error)
    if isinstance(error, TimeoutError):
        return f"it did not answer within {timeout_s:g} s"
    return error.message if isinstance(error, EngineError) else str(error) or type(error).__name__
