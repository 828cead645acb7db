"""A server that ends: requests that have begun are answered to their end, new ones are not taken."""

import asyncio
import contextlib
import socket

import pytest

from arena.cluster.serving import serve
from arena.errors import UsageError
from arena.front_door import Receive, Scope, Send
from arena.listening import listen

HEAD = b"GET / HTTP/1.1\r\nhost: arena\r\n\r\n"


class Slow:
    """An application that answers when it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        del scope, receive
        self.asked.set()
        await self.answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"done"})


async def test_a_request_that_has_begun() -> None:
    """The end waits for what has begun, and nobody else is let in."""
    app, listener = Slow(), listen("127.0.0.1", 0, hint="")
    port = listener.getsockname()[1]
    serving = asyncio.create_task(serve(app, listener, drain_s=20))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD)
    await app.asked.wait()
    serving.cancel()
    async with asyncio.timeout(20):
        while await is_taken(port):  # noqa: ASYNC110 - the test is nobody's watcher
            await asyncio.sleep(0.01)
        assert not serving.done()
        app.answer.set()
        assert (await reader.read()).endswith(b"done")
        await asyncio.wait({serving})
    assert serving.cancelled()
    writer.close()


async def is_taken(port: int) -> bool:
    """Say whether a connection is taken."""
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        return True
    return False


def test_a_port_that_is_taken() -> None:
    """A port that somebody listens on is refused, naming it and what to do."""
    with listen("127.0.0.1", 0, hint="") as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UsageError, match=f"127.0.0.1:{port}") as refused:
            listen("127.0.0.1", port, hint="choose another port with --port")
    assert refused.value.hint == "choose another port with --port"


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("client", ["127.0.0.1", "::1"])
async def test_every_interface(client: str) -> None:
    """Without a host every interface is listened on, of either family."""
    with listen("", 0, hint="") as listener:
        _, writer = await asyncio.open_connection(client, listener.getsockname()[1])
        writer.close()
        await writer.wait_closed()
