"""`arena doctor`: what is wrong with this installation, in words, with the remedy."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from arena import settings
from arena.cli.client import Client
from arena.cli.options import DEFAULT_STATE, State, state_directory
from arena.cli.screen import paint
from arena.errors import ServerUnreachable, UsageError
from arena.local.state import StateDirectory
from engine.errors import QueueUnavailable
from engine.queue.embedded import find_server
from foundation.errors import ArenaError
from reconcile.cluster.port import NAMESPACE

MIN_GIT = (2, 39)
MIN_FREE_BYTES = 1024**3


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("doctor")(doctor)


def doctor(
    *,
    redis_url: Annotated[
        str, typer.Option("--redis-url", envvar=settings.REDIS_URL, show_default="the server's own", help="Queue server that `arena up` was given.")
    ] = "",
    state: State = DEFAULT_STATE,
) -> int:
    """Look for what keeps this installation from working; exit 0 when nothing does, 2 otherwise."""
    directory = state_directory(state)
    problems = 0
    for name, fault in _findings(directory, redis_url):
        problems += bool(fault)
        mark = paint("bad", "red") if fault else paint("ok ", "green")
        sys.stdout.write(f"{mark}  {name}{f': {fault}' if fault else ''}\n")
    return 2 if problems else 0


def _findings(state: StateDirectory, redis_url: str) -> Iterator[tuple[str, str]]:
    """Yield each thing looked at, and what is wrong with it ("" when nothing is)."""
    yield _git()
    yield _queue_program()
    yield _disk(state)
    try:
        address = state.address()
        client = Client.of(state)
    except ServerUnreachable:
        yield "server (not running; start it with `arena up`)", ""
        return
    try:
        client.list(NAMESPACE, "")
        yield f"server at {address.url}", ""
    except UsageError as error:
        yield f"server at {address.url}", f"{error.message}; {error.hint}"
        return
    queue_url = address.queue or redis_url
    if queue_url:
        yield from (("queue server", fault) for fault in asyncio.run(_queue(queue_url, state.installation())) or [""])


def _git() -> tuple[str, str]:
    git = shutil.which("git")
    if git is None:
        return "git", "not installed; install git 2.39 or newer"
    version = subprocess.run([git, "version"], capture_output=True, text=True, check=False).stdout.split()[2]  # noqa: S603 - fixed words
    numbers = tuple(int(part) for part in version.split(".")[:2])
    return f"git {version}", "" if numbers >= MIN_GIT else "older than 2.39; install a newer one"


def _queue_program() -> tuple[str, str]:
    try:
        return f"queue server program {find_server()}", ""
    except QueueUnavailable as error:
        return "queue server program", f"{error.message}; {error.hint}"


def _disk(state: StateDirectory) -> tuple[str, str]:
    if not state.root.exists():
        return f"state directory {state.root} (not there yet; `arena up` makes it)", ""
    try:
        state.prepare()
        free = shutil.disk_usage(state.root).free
    except (ArenaError, OSError) as error:
        return f"state directory {state.root}", f"{error}; {getattr(error, 'hint', '')}".removesuffix("; ")
    short = f"only {free // 1024**2} MiB free; make room" if free < MIN_FREE_BYTES else ""
    return f"state directory {state.root}", short


async def _queue(url: str, installation: str) -> list[str]:
    from engine.queue.redis import RedisWorkQueue  # noqa: PLC0415 - only when a server is there

    queue = RedisWorkQueue(url, installation=installation)
    try:
        return await queue.check()
    except QueueUnavailable as error:
        return [error.message]
    finally:
        await queue.close()
