"""A model's endpoint on loopback, and providers that ask it."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from engine.providers.credentials import Keys
from engine.providers.port import Chunk, Provider, Reply, Request
from engine.providers.prices import Prices
from engine.providers.remotes import Remotes
from foundation.addresses import AddressPolicy
from foundation.clock import SystemClock
from tests.providers.vendor_server import VendorServer, vendor_server

Asking = Callable[..., Provider]
PUBLIC = AddressPolicy()
KEY = "sk-secret-123456-wxyz"


@pytest.fixture
async def server() -> AsyncIterator[VendorServer]:
    """Run a server."""
    async with vendor_server() as running:
        yield running


@pytest.fixture
async def ask(server: VendorServer, tmp_path: Path) -> AsyncIterator[Asking]:
    """Return a provider of a spec, which is that of OpenAI's protocol at the server where nothing else is said."""
    made = []

    def build(*, patience_s: float = 0.0, policy: AddressPolicy = PUBLIC, **spec: Any) -> Provider:
        remotes = Remotes(Keys({"KEY": KEY}, tmp_path), policy, Prices(), SystemClock(), patience_s=patience_s)
        made.append(remotes)
        words = {"type": "openai", "model": "m", "base_url": f"{server.url}/v1", "credential": {"credential_env": "KEY"}, "from_job": True}
        return remotes.build("p", words | spec)

    yield build
    for remotes in made:
        await remotes.close()


async def chunks_of(provider: Provider, request: Request) -> list[Chunk]:
    """Return all chunks of a stream."""
    return [chunk async for chunk in provider.stream(request)]


async def streamed(provider: Provider, request: Request) -> Reply:
    """Return the reply of a stream."""
    reply = (await chunks_of(provider, request))[-1].reply
    assert reply is not None
    return reply
