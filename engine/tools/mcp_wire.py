"""The wires of MCP: a confined process, or HTTP through our own guarded connections, as the official package wants its streams.

Owns the adapters, and nothing of the protocol. Imports the package, which takes a second: import it only when a server is to be reached.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx2
import mcp_types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from engine.bundle.services import McpServer
from engine.tools.processes import Confinement, ProcessFailed, Program, Running
from engine.tools.web import Web, WebError, WebRequest

if TYPE_CHECKING:
    from aiohttp import ClientResponse
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]

MAX_RESPONSE_BYTES: Final = 32 << 20
"""The longest response over HTTP that is no stream of events; those are limited by the package, event by event."""


@asynccontextmanager
async def process_streams(confinement: Confinement, program: Program, report: Callable[[Exception], None]) -> "AsyncIterator[Streams]":
    """Start a server and yield its streams. What ends the process or its output is told to `report`: the package only says that a stream closed.

    Raises:
        CodeRefused, ProcessFailed: it cannot be started.
    """
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    async with confinement.start(program) as running, to_session, from_server, to_server, from_session, anyio.create_task_group() as group:
        group.start_soon(_hear, running, to_session, report)
        group.start_soon(_tell, running, from_session, report)
        yield from_server, to_server
        group.cancel_scope.cancel()


async def _hear(running: Running, to_session: "MemoryObjectSendStream[SessionMessage | Exception]", report: Callable[[Exception], None]) -> None:
    async with to_session:
        try:
            while line := await running.receive():
                if line.strip():
                    await to_session.send(_message(line))
            report(running.failed("it closed its output"))
        except ProcessFailed as error:
            report(error)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _tell(running: Running, from_session: "MemoryObjectReceiveStream[SessionMessage]", report: Callable[[Exception], None]) -> None:
    try:
        async for message in from_session:
            await running.send(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
    except ProcessFailed as error:
        report(error)


def web_streams(web: Web, server: McpServer, timeout_s: float) -> Any:
    """Return what connects to a server over HTTP, all of whose requests go through `web`."""
    timeout = httpx2.Timeout(timeout_s, read=None)

    def client(headers: dict[str, str] | None = None, timeout: Any = timeout, auth: Any = None) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=_Transport(web), headers=headers, timeout=timeout, auth=auth, trust_env=False)

    if server.transport == "sse":
        return sse_client(server.url, dict(server.headers), timeout=timeout_s, httpx_client_factory=client)
    return _streamable(server, client)


@asynccontextmanager
async def _streamable(server: McpServer, client: Callable[[dict[str, str]], httpx2.AsyncClient]) -> AsyncIterator[Any]:
    async with client(dict(server.headers)) as connections, streamable_http_client(server.url, http_client=connections) as streams:
        yield streams


class _Transport(httpx2.AsyncBaseTransport):
    """httpx's port, over our own connections."""

    def __init__(self, web: Web) -> None:
        self._web = web

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in ("host", "content-length", "accept-encoding")}
        body = await request.aread()
        try:
            answer = await self._web.send(WebRequest(request.method, str(request.url), headers, body or None))
        except WebError as error:
            raise httpx2.ConnectError(error.message, request=request) from error
        except Exception as error:
            raise httpx2.ConnectError(f"{error}", request=request) from error
        kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in ("content-encoding", "content-length")]
        return httpx2.Response(answer.status, headers=kept, stream=_Body(answer), request=request)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: "ClientResponse") -> None:
        self._answer = answer
        self._limit = None if answer.content_type == "text/event-stream" else MAX_RESPONSE_BYTES

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        while chunk := await self._next():
            read += len(chunk)
            if self._limit is not None and read > self._limit:
                raise httpx2.ReadError(f"the answer is longer than {self._limit >> 20} MiB")
            yield chunk

    async def _next(self) -> bytes:
        try:
            return await self._answer.content.readany()
        except Exception as error:
            raise httpx2.ReadError(str(error) or type(error).__name__) from error

    async def aclose(self) -> None:
        self._answer.close()
