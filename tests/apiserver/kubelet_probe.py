"""What a kubelet asks a container: whether it is ready. Liveness is not asked: what hangs here is to be seen, not mended."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

_TIMEOUT_S = 5.0


async def answers(probe: Mapping[str, Any], port: int) -> bool:
    """Say whether a probe succeeds, asked at a port of this machine: `httpGet` or `tcpSocket`."""
    try:
        async with asyncio.timeout(probe.get("timeoutSeconds", 1) + _TIMEOUT_S):
            return await _asked(probe, port)
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return False


async def _asked(probe: Mapping[str, Any], port: int) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        if "httpGet" not in probe:
            return True
        writer.write(f"GET {probe['httpGet']['path']} HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n".encode())
        line = await reader.readline()
        return line.split()[1:2] == [b"200"]
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
