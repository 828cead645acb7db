"""A server of the official MCP package, over each of its transports: `python mcp_peer.py stdio`, or `sse` or `streamable-http` with a port."""

import base64
import sys
from collections import Counter

from mcp.server.mcpserver import Image, MCPServer

server = MCPServer("peer")
_calls: Counter[str] = Counter()


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def count() -> str:
    """Count the calls of this process."""
    _calls["count"] += 1
    return f"call {_calls['count']}"


@server.tool()
def picture() -> Image:
    """Return a picture."""
    return Image(data=base64.b64decode("iVBORw0KGgo="), format="png")


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("it is broken")


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run(sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]))  # type: ignore[call-overload]
