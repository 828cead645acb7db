"""`arena up`: the whole installation in one process, until it is interrupted."""

import asyncio
import contextlib
import ipaddress
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from arena import settings
from arena.cli.options import (
    DEFAULT_STATE,
    AllowCode,
    AllowCodeNetwork,
    AllowCodeUnconfined,
    AllowNetwork,
    State,
    grants,
    network,
    state_directory,
)
from arena.cli.screen import drop_output, paint, print_warning
from arena.cli.selecting import PricesFile, own_prices
from arena.local.state import StateDirectory
from arena.logging import LogLevel, configure_logging
from foundation.crash import arm

DEFAULT_PORT = 7420


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("up")(up)


def up(  # noqa: PLR0913 - one parameter an option
    *,
    host: Annotated[str, typer.Option("--host", envvar=settings.HOST, help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", envvar=settings.PORT, min=0, max=65535, help="Port to listen on; 0 takes any free one.")
    ] = DEFAULT_PORT,
    max_workers: Annotated[
        int, typer.Option("--max-workers", envvar=settings.MAX_WORKERS, min=1, show_default="cores", help="Worker processes at a time.")
    ] = os.cpu_count() or 1,
    redis_url: Annotated[
        str, typer.Option("--redis-url", envvar=settings.REDIS_URL, show_default="our own", help="Queue server to use instead of our own.")
    ] = "",
    allow_network: AllowNetwork = None,
    allow_code: AllowCode = None,
    allow_code_network: AllowCodeNetwork = None,
    allow_code_unconfined: AllowCodeUnconfined = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", envvar=settings.TOKEN_FILE, show_default="none", help="Tokens for git beside the installation's own."),
    ] = None,
    worker_env: Annotated[
        list[str] | None,
        typer.Option(
            "--worker-env",
            envvar=settings.WORKER_ENV,
            metavar="NAME",
            show_default="none",
            help="Variable of this environment that workers get, so that bundles may name it; may be repeated.",
        ),
    ] = None,
    prices: PricesFile = None,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", envvar=settings.LOG_LEVEL, help="Least severe log lines to write.")
    ] = LogLevel.WARNING,
    state: State = DEFAULT_STATE,
) -> None:
    """Start the local installation: git server, controllers, queue and workers."""
    configure_logging(log_level)
    arm(settings.crash_at())
    if not is_loopback(host):
        print_warning(f"{host} can be reached from other machines, and the token crosses the network in the clear; put a TLS proxy before it")
    networks = tuple(network(text) for text in allow_network or ())
    granted = grants(allow_code, allow_code_network, allow_code_unconfined, allow_network)
    directory = state_directory(state)
    directory.prepare()
    with directory.lock():
        from arena.large_blocks import return_large_blocks  # noqa: PLC0415 - the whole house, only when it is started
        from arena.wiring import LocalArena, LocalSettings  # noqa: PLC0415

        return_large_blocks()
        variables, known = tuple(worker_env or ()), own_prices(prices)
        arena = LocalArena(directory, LocalSettings(host, port, max_workers, redis_url, networks, token_file, granted, variables, known))
        with contextlib.suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(arena.run(lambda url: _welcome(url, directory)))


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _welcome(url: str, state: StateDirectory) -> None:
    """Say where to push, how git gets its token, and what to type next."""
    helper = credential_helper(state)
    text = (
        f"{paint('arena is up', 'bold')}  {url}  state {state.root}\n"
        f"  clone URL   {url}/git/NAMESPACE/PROJECT.git\n"
        f"  for git     git config --global credential.{url}.helper {shlex.quote(helper)}\n"
        f"  next        arena apply -f PROJECT.yaml{'' if state.root.name == '.arena' else f' --state {state.root}'}\n"
    )
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()


def credential_helper(state: StateDirectory) -> str:
    """Return the value of git's `credential.helper` that answers for this installation."""
    return f"!{shlex.quote(sys.executable)} -m arena git-credential --state {shlex.quote(str(state.root))}"
