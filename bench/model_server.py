"""A loopback model that speaks OpenAI's chat completions, in a process of its own: cheap enough never to be what is measured.

    python -m bench.model_server [--latency-ms 200] [--chunks 200] [--gap-ms 1]

Prints its port, and serves until its stdin ends. A request is answered `latency_ms` after its last byte; one that asks for a stream by `chunks` chunks, a
write each, `gap_ms` apart (0: as fast as this process writes). A stream's `model` says by this server's clock (CLOCK_MONOTONIC, one for all processes of a machine) when the
request was whole and when the first text was written, in nanoseconds: `R-W`, 20 digits each.
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, cast

import uvloop

ANSWER = "the answer is 42"
_USAGE = {"prompt_tokens": 12, "completion_tokens": 6, "total_tokens": 18}
_HEAD = {"id": "chatcmpl-1", "created": 1, "model": "bench-model"}


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the server answers."""

    latency_s: float = 0.2
    chunks: int = 200
    gap_s: float = 0.001


class _Connection(asyncio.Protocol):
    """One connection: a request at a time, kept alive."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._buffer = b""
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        came_ns = time.monotonic_ns()
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        start = head.find(b"content-length:")
        length = int(head[start + 15 :].split(b"\r\n", 1)[0]) if start >= 0 else 0
        if len(self._buffer) < end + 4 + length:
            return
        body, self._buffer = self._buffer[end + 4 : end + 4 + length], self._buffer[end + 4 + length :]
        streams = b'"stream":true' in body or b'"stream": true' in body
        self._loop.call_later(self._behaviour.latency_s, self._stream if streams else self._answer, came_ns)

    def _answer(self, _: int) -> None:
        self._transport.write(_WHOLE)

    def _stream(self, received_ns: int) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(_FIRST.replace(_TIMES, b"%020d-%020d" % (received_ns, time.monotonic_ns())))
        self._next(1)

    def _next(self, sent: int) -> None:
        if self._behaviour.gap_s > 0:
            self._loop.call_later(self._behaviour.gap_s, self._go_on, sent)
        else:
            self._loop.call_soon(self._go_on, sent)

    def _go_on(self, sent: int) -> None:
        if self._transport.is_closing():
            return
        if sent < self._behaviour.chunks:
            self._transport.write(_TEXT)
            self._next(sent + 1)
        else:
            self._transport.write(_END)


def _piece(head: dict[str, object], delta: dict[str, str], finish: str | None = None) -> bytes:
    chunk = {**head, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return _framed(b"data: " + json.dumps(chunk).encode() + b"\n\n")


def _framed(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


_BODY = json.dumps(
    {
        **_HEAD,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}],
        "usage": _USAGE,
    }
).encode()
_WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + str(len(_BODY)).encode() + b"\r\n\r\n" + _BODY
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_TIMES = b"0" * 20 + b"-" + b"0" * 20
_FIRST = _STREAM_HEAD + _piece({**_HEAD, "model": _TIMES.decode()}, {"role": "assistant", "content": "the "})
_TEXT = _piece(_HEAD, {"content": "answer "})
_COUNTED = json.dumps({**_HEAD, "object": "chat.completion.chunk", "choices": [], "usage": _USAGE}).encode()
_END = _piece(_HEAD, {}, "stop") + _framed(b"data: " + _COUNTED + b"\n\n") + _framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"


@contextlib.contextmanager
def serving(*, latency_ms: float = 200.0, chunks: int = 200, gap_ms: float = 1.0) -> Iterator[int]:
    """Run a server in a process of its own; yields its port."""
    options = ("--latency-ms", str(latency_ms), "--chunks", str(chunks), "--gap-ms", str(gap_ms))
    with subprocess.Popen([sys.executable, "-m", "bench.model_server", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield int(cast("IO[bytes]", process.stdout).readline())
        finally:
            cast("IO[bytes]", process.stdin).close()


async def _serve(behaviour: Behaviour) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(behaviour), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


def main() -> int:
    """Serve until stdin ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency-ms", type=float, default=200.0)
    parser.add_argument("--chunks", type=int, default=200)
    parser.add_argument("--gap-ms", type=float, default=1.0)
    options = parser.parse_args()
    uvloop.run(_serve(Behaviour(options.latency_ms / 1000, options.chunks, options.gap_ms / 1000)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
