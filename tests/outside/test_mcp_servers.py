"""MCP servers over each transport: names, filters, sessions, results, and what a server that fails says."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.bundle.services import Command, McpServer
from engine.items import Verdict
from engine.permissions import Permissions
from engine.tools.environment import Environment
from engine.tools.episode import begin_episode
from engine.tools.mcp_tools import McpConnection, McpTool, answer_of
from engine.tools.port import CallFailed
from engine.tools.processes import Confinement
from engine.tools.web import Web
from foundation.addresses import AddressPolicy
from tests.agents.asking import Nowhere
from tests.outside.reaching import CONFINED, LOOPBACK, Hold, WriteProgram, call, parts_of, results_of, run_first, write_bundle
from tests.ports import free_ports

PEER = Path(__file__).with_name("mcp_peer.py")
DEADLINE_S = 60
PLAIN = """\
import json, sys
calls = 0
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    def answer(**result):
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **result}), flush=True)
    if message["method"] == "initialize":
        answer(result={"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}})
    elif message["method"] == "tools/list":
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        answer(result={"tools": [{"name": name, "description": f"Does {name}", "inputSchema": schema} for name in ("count", "die", "flood", "hang", "hidden")]})
    elif message["method"] != "tools/call":
        answer(error={"code": -32601, "message": "no such method"})
    elif message["params"]["name"] == "count":
        calls += 1
        answer(result={"content": [{"type": "text", "text": f"call {calls} with {message['params']['arguments']}"}]})
    elif message["params"]["name"] == "die":
        sys.exit("I am dying")
    elif message["params"]["name"] == "flood":
        while True:
            sys.stdout.write("x" * 65536)
"""


def server(**more: Any) -> dict[str, Any]:
    """Return the server `my` over stdio."""
    return {"name": "my", "command": "python3", "args": ["srv.py"]} | more


async def test_one_session_a_conversation(hold: Hold, program: WriteProgram) -> None:
    """A server's allowed tools are offered under their full names; one session serves a conversation, and the next has its own."""
    program("srv.py", PLAIN)
    allowed = ["mcp__my__count", "mcp__my__hidden"]
    servers = [server(tool_filter={"blocklist": ["hidden"]})]
    for _ in range(2):
        result = await hold({}, [call("mcp__my__count", n="3"), call("mcp__my__count")], allowed=allowed, mcp_servers=servers)
        assert results_of(result) == ["call 1 with {'n': 3}", "call 2 with {}"]
    assert result.messages[0]["meta"]["availableTools"] == ["mcp__my__count"]


async def test_a_tool_that_its_server_does_not_list(hold: Hold, program: WriteProgram) -> None:
    """A tool that is allowed by its whole name and is not there is an error that names the nearest one, as in a bundle's own tools: never a score."""
    program("srv.py", PLAIN)
    result = await hold({}, [], allowed=["mcp__my__coumt"], mcp_servers=[server()])
    assert result.error is not None
    assert (result.error.kind, result.retryable) == ("tools", False)
    assert result.error.message == "cannot offer the tool 'mcp__my__coumt': MCP server 'my' does not list it; did you mean 'mcp__my__count'?"


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        pytest.param("die", "failed: it closed its output (exit code 1); it wrote: I am dying", id="it ends"),
        pytest.param("flood", "failed: it wrote a line of more than 8 MiB", id="it floods"),
    ],
)
async def test_calls_that_fail(hold: Hold, program: WriteProgram, tool: str, said: str) -> None:
    """A server that ends or floods in a call is a tool error that names server, command and why; the conversation goes on."""
    program("srv.py", PLAIN)
    result = await hold({}, [call(f"mcp__my__{tool}")], allowed=["mcp__my__*"], mcp_servers=[server(timeout_ms=DEADLINE_S * 1000)])
    assert f"tool '{tool}' of MCP server 'my' (command 'python3 srv.py') failed: " in results_of(result)[0]
    assert said in results_of(result)[0]
    assert result.messages[-1]["content"] == "done"


@pytest.mark.usefixtures("walls")
async def test_a_call_that_hangs(tmp_path: Path) -> None:
    """A server that does not answer a call in time is a tool error that says so."""
    silent = McpServer("my", "stdio", command=Command("python3", ("-c", PLAIN)), timeout_ms=DEADLINE_S * 1000)
    confinement = Confinement(tmp_path, CONFINED)
    connection = McpConnection(silent, confinement, Web(AddressPolicy()), Environment({}))
    tools = {tool.name: McpTool(tool, connection) for tool in await connection.discover()}
    async with begin_episode(Nowhere()):
        await tools["mcp__my__count"].call({})
        connection.timeout_s = 0.2
        with pytest.raises(CallFailed, match=r"failed: it did not answer within 0\.2 s"):
            await tools["mcp__my__hang"].call({})


@pytest.mark.parametrize(
    ("more", "why"),
    [
        pytest.param(
            {"command": "npx", "env": {"PATH": "Make sure node is on your path"}},
            "it wrote: prlimit: failed to execute npx: No such file or directory; the bundle sets PATH to 'Make sure node is on your path'",
            id="a command that is not there",
        ),
        pytest.param({"args": ["-c", "raise SystemExit('no licence')"]}, "(exit code 1); it wrote: no licence", id="a server that does not start"),
        pytest.param(
            {"args": ["-c", "import time; time.sleep(600)"], "timeout_ms": 500}, "it did not answer within 0.5 s", id="a server that is silent"
        ),
        pytest.param({"tool_filter": {"allowlist": ["cuont"]}}, "its tool_filter names 'cuont', which it does not have", id="a filter of nothing"),
        pytest.param({"command": None, "url": "http://127.0.0.1:1/sse"}, "(address http://127.0.0.1:1/sse): ", id="nobody at an address"),
        pytest.param(
            {"command": None, "url": "http://10.0.0.1/mcp", "transport": "streamable_http"},
            "may not be reached: its address is private",
            id="a private address",
        ),
    ],
)
async def test_discovery_that_fails_is_an_error(hold: Hold, program: WriteProgram, more: dict[str, Any], why: str) -> None:
    """A server that cannot be asked for its tools makes an item an error that names server, way and cause; nothing is scored."""
    program("srv.py", PLAIN)
    given = {key: value for key, value in server(**more).items() if value is not None and (key != "args" or more.get("command", "") is not None)}
    result = await hold({}, [], allowed=["mcp__my__*"], mcp_servers=[given], checks=[{"type": "contains", "params": {"patterns": ["done"]}}])
    assert (result.verdict, result.checks) == (Verdict.ERROR, [])
    assert result.error is not None
    assert result.error.kind == "tools"
    assert "cannot list the tools of MCP server 'my'" in result.error.message
    assert why in result.error.message


async def test_a_server_that_nobody_may_call_is_not_started(hold: Hold) -> None:
    """A server none of whose tools a prompt allows is left alone."""
    assert (await hold({}, [], mcp_servers=[server(command="no-such-command")])).verdict is Verdict.PASS


@contextlib.asynccontextmanager
async def listening(transport: str) -> AsyncIterator[str]:
    """Run a server of the package over HTTP; yields its address."""
    (port,) = free_ports(1)
    process = await asyncio.create_subprocess_exec(sys.executable, str(PEER), transport, str(port), stderr=subprocess.DEVNULL)
    try:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    await writer.wait_closed()
                    break
                await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"
    finally:
        process.kill()
        await process.wait()


async def _meets(root: Path, way: dict[str, Any], permissions: Permissions) -> None:
    calls = [
        call("mcp__peer__add", a=1, b=2),
        call("mcp__peer__picture"),
        call("mcp__peer__fail"),
        call("mcp__peer__count"),
        call("mcp__peer__count"),
    ]
    bundle = write_bundle(root, {}, calls, allowed=["mcp__peer__*"], mcp_servers=[{"name": "peer"} | way])
    result = await run_first(bundle, permissions, {})
    assert result.error is None
    sums, picture, broken, first, second = results_of(result)
    assert (sums, picture) == ("3", "")
    assert "fail" in broken
    assert (first, second) == ("call 1", "call 2")
    assert parts_of(result) == [{"type": "image", "media": {"mimeType": "image/png", "sizeBytes": 8, "data": "iVBORw0KGgo="}}]


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["sse", "streamable-http"])
async def test_a_real_server_over_http(tmp_path: Path, transport: str) -> None:
    """A server of the official package answers over SSE and over streamable HTTP."""
    async with listening(transport) as url:
        await _meets(tmp_path, {"url": url, "transport": transport.replace("-", "_")}, Permissions(networks=LOOPBACK))


@pytest.mark.slow
async def test_a_real_server_over_stdio(tmp_path: Path) -> None:
    """A server of the official package answers over stdio (bare: its interpreter is outside of the walls)."""
    peer = McpServer("peer", "stdio", command=Command(sys.executable, (str(PEER), "stdio")), timeout_ms=DEADLINE_S * 1000)
    bare = Confinement(tmp_path, Permissions("unconfined"), unconfinable="not in this test")
    connection = McpConnection(peer, bare, Web(AddressPolicy()), Environment({}))
    assert [tool.name for tool in await connection.discover()] == [f"mcp__peer__{name}" for name in ("add", "count", "picture", "fail")]
    async with connection.session() as session:
        assert answer_of(await session.call("add", {"a": 1, "b": 2})).text == "3"
        assert [answer_of(await session.call("count", {})).text for _ in range(2)] == ["call 1", "call 2"]


@pytest.mark.slow
@pytest.mark.usefixtures("walls")
async def test_a_server_from_pypi(tmp_path: Path) -> None:
    """A server that its author published works confined, from a folder of the bundle."""
    installing = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(tmp_path / "site"), "mcp-server-time"),
        stderr=subprocess.PIPE,
    )
    _, said = await installing.communicate()
    if installing.returncode != 0:
        pytest.skip(f"mcp-server-time cannot be installed here: {said.decode()[-200:]}")
    way = {
        "command": "python3",
        "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"],
        "env": {"PYTHONPATH": "/bundle/site"},
        "timeout_ms": 60_000,
    }
    calls = [call("mcp__time__convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo")]
    bundle = write_bundle(tmp_path, {}, calls, allowed=["mcp__time__*"], mcp_servers=[{"name": "time"} | way])
    result = await run_first(bundle, CONFINED, {})
    assert result.error is None, result.error
    assert "21:00" in results_of(result)[0]
