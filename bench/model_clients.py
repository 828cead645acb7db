"""What asks the loopback model: our provider layer and a bare aiohttp loop, one process each, both on uvloop, with as many requests in flight.

    python -m bench.model_clients ours|bare PORT IN_FLIGHT REQUESTS [--stream]

Prints a JSON object: requests a second from the first to the last, CPU milliseconds a request (user and system), and for each streaming call the
error of the time to first token against the server's own clock, in milliseconds. A first round of requests opens the connections and is not measured.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp
import uvloop

from engine.providers.credentials import Keys
from engine.providers.messages import Message
from engine.providers.port import Reply, Request, Sampling
from engine.providers.prices import Prices
from engine.providers.remotes import Remotes
from foundation import many_at_once
from foundation.addresses import AddressPolicy
from foundation.clock import SystemClock

QUESTION = "What is the answer?"
SYSTEM = "Answer."
MODEL = "bench-model"
MAX_TOKENS = 100
STREAMS_APART_S = 0.025
"""Streams begin one after the other, as users come; what all begin at once would measure the queue of the machine."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One run of a client."""

    requests_per_s: float
    cpu_ms: float
    ttft_errors_ms: list[float] = field(default_factory=list)


def run(client: str, port: int, in_flight: int, requests: int, *, stream: bool = False) -> Figures:
    """Run a client in a process of its own."""
    argv = [sys.executable, "-m", "bench.model_clients", client, str(port), str(in_flight), str(requests), *(["--stream"] if stream else [])]
    return Figures(**json.loads(subprocess.run(argv, check=True, capture_output=True).stdout))


async def _in_flight(ask: Callable[[], Awaitable[None]], in_flight: int, requests: int, apart_s: float = 0.0) -> None:
    left = requests

    async def work(place: int) -> None:
        nonlocal left
        await asyncio.sleep(place * apart_s)
        while left > 0:
            left -= 1
            await ask()

    async with asyncio.TaskGroup() as group:
        for place in range(in_flight):
            group.create_task(work(place))


async def _measure(ask: Callable[[], Awaitable[None]], in_flight: int, requests: int, errors: list[float], *, stream: bool) -> Figures:
    await _in_flight(ask, in_flight, in_flight)
    errors.clear()
    cpu_s, began = time.process_time(), time.perf_counter()
    await _in_flight(ask, in_flight, requests, STREAMS_APART_S if stream else 0.0)
    wall_s, used_s = time.perf_counter() - began, time.process_time() - cpu_s
    return Figures(requests / wall_s, 1000 * used_s / requests, errors)


async def _ours(port: int, in_flight: int, requests: int, *, stream: bool) -> Figures:
    spec = {
        "id": "bench",
        "type": "openai",
        "model": MODEL,
        "base_url": f"http://127.0.0.1:{port}/v1",
        "from_job": True,
        "pricing": {"input_cost_per_1k": 0.001, "output_cost_per_1k": 0.002},
        "credential": {"credential_env": "BENCH_KEY"},
    }
    remotes = Remotes(Keys({"BENCH_KEY": "sk-bench"}), AddressPolicy(), Prices(), SystemClock(), patience_s=120.0)
    provider = remotes.build("bench", spec)
    request = Request([Message("user", QUESTION)], system=SYSTEM, sampling=Sampling(temperature=0.0, max_tokens=MAX_TOKENS))
    errors: list[float] = []

    async def ask() -> None:
        reply = await provider.complete(request)
        if reply.usage is None or not reply.cost_usd:
            raise ValueError("the reply has no usage or no cost")

    async def listen() -> None:
        last: Reply | None = None
        async for chunk in provider.stream(request):
            last = chunk.reply
        if last is None or last.usage is None or last.ttft_ms is None:
            raise ValueError("the stream has no end, no usage or no first token")
        errors.append(last.ttft_ms - _server_ttft_ms(last.meta["model"]))

    try:
        return await _measure(listen if stream else ask, in_flight, requests, errors, stream=stream)
    finally:
        await remotes.close()


async def _bare(port: int, in_flight: int, requests: int, *, stream: bool) -> Figures:
    """Do the least that asks a model: post, read, parse; no check, price, limit or retry."""
    url, headers = f"http://127.0.0.1:{port}/v1/chat/completions", {"Authorization": "Bearer sk-bench"}
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    body = {"model": MODEL, "messages": messages, "temperature": 0.0, "max_tokens": MAX_TOKENS, **({"stream": True} if stream else {})}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        def check(text: str) -> None:
            if not text:
                raise ValueError("the reply has no text")

        async def ask() -> None:
            async with session.post(url, json=body, headers=headers) as response:
                check((await response.json())["choices"][0]["message"]["content"])

        errors: list[float] = []

        async def listen() -> None:
            text, began = "", time.monotonic()
            async with session.post(url, json=body, headers=headers) as response:
                async for line in response.content:
                    if not line.startswith(b"data: {"):
                        continue
                    event = json.loads(line[6:])
                    if not text:
                        errors.append(1000 * (time.monotonic() - began) - _server_ttft_ms(event["model"]))
                    for choice in event["choices"]:
                        text += choice["delta"].get("content", "")
            check(text)

        return await _measure(listen if stream else ask, in_flight, requests, errors, stream=stream)


def _server_ttft_ms(times: object) -> float:
    """Return what the server saw, from the model's name of its stream."""
    received_ns, first_ns = map(int, str(times).split("-"))
    return (first_ns - received_ns) / 1e6


def main() -> int:
    """Run one client against a server that is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("client", choices=("ours", "bare"))
    parser.add_argument("port", type=int)
    parser.add_argument("in_flight", type=int)
    parser.add_argument("requests", type=int)
    parser.add_argument("--stream", action="store_true")
    options = parser.parse_args()
    many_at_once.prepare()  # as a worker does; for the bare loop alike, so that the layer alone makes the difference
    client = {"ours": _ours, "bare": _bare}[options.client]
    figures = uvloop.run(client(options.port, options.in_flight, options.requests, stream=options.stream))
    json.dump({"requests_per_s": figures.requests_per_s, "cpu_ms": figures.cpu_ms, "ttft_errors_ms": figures.ttft_errors_ms}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
