"""Bundles that reach outside, and who is there: a web server on loopback, programs in the bundle."""

import asyncio
import textwrap
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from engine.items import ItemResult
from engine.permissions import Permissions
from tests.loops import Loop
from tests.outside.reaching import CONFINED, Handler, Hold, Serve, WriteProgram, run_first, unconfinable, write_bundle


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run tests on both loops: `arena eval` of mocks starts programs and asks services from asyncio's own."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": Loop}


@pytest.fixture
def hold(tmp_path: Path) -> Hold:
    """Write a bundle and run its first item; its tool results are in `results_of`."""

    async def run(
        tools: Mapping[str, Mapping[str, Any]],
        calls: list[dict[str, Any]],
        *,
        permissions: Permissions = CONFINED,
        environment: Mapping[str, str] | None = None,
        **more: Any,
    ) -> ItemResult:
        (tmp_path / "bundle").mkdir(exist_ok=True)
        return await run_first(write_bundle(tmp_path / "bundle", tools, calls, **more), permissions, environment or {})

    return run


@pytest.fixture
def walls() -> None:
    """Skip where no program can be confined: there all of them are refused."""
    if why := unconfinable():
        pytest.skip(why)


@pytest.fixture
def program(tmp_path: Path, walls: None) -> WriteProgram:  # noqa: ARG001 - a program needs them
    """Write a Python program into the bundle."""

    def write(name: str, source: str) -> None:
        (tmp_path / "bundle").mkdir(exist_ok=True)
        (tmp_path / "bundle" / name).write_text(textwrap.dedent(source))

    return write


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serve handlers on loopback until the test ends; returns the address."""
    running: list[web.AppRunner] = []

    async def start(**handlers: Handler) -> str:
        app = web.Application()
        for name, handler in handlers.items():
            app.router.add_route("*", f"/{name.replace('__', '/')}", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        running.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    yield start
    for runner in running:
        await runner.cleanup()
