"""`arena agent serve PATH`: a bundle as an agent, for whoever speaks the agent protocol: our own runs, a person, a test."""

import asyncio
import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import settings
from arena.cli.options import AllowNetwork, Mock, OwnCode, OwnCodeNetwork, OwnCodeUnconfined, own_permissions
from arena.cli.screen import drop_output, paint, print_warning
from arena.cli.selecting import locate
from arena.cli.server import is_loopback
from arena.errors import UsageError
from arena.listening import listen
from arena.logging import LogLevel, configure_logging

if TYPE_CHECKING:
    import socket

    from engine.agents.served import ServedBundle
    from engine.agents.server import ServerOptions

DEFAULT_PORT = 8080
_MAX_TOKEN_BYTES = 4096


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    group = typer.Typer(help="Bundles as agents.")
    group.callback()(_agent)
    group.command("serve")(serve)
    app.add_typer(group, name="agent")


def _agent() -> None:
    """Bundles as agents."""


def serve(  # noqa: PLR0913 - one parameter an option
    path: Annotated[Path, typer.Argument(help="Folder of the bundle, or its arena config file.", metavar="PATH")] = Path(),
    *,
    scenario: Annotated[
        str,
        typer.Option(
            "--scenario",
            envvar=settings.AGENT_SCENARIO,
            show_default="none",
            help="Scenario that lends its prompt, its variables and the mock's answers to it.",
        ),
    ] = "",
    task_type: Annotated[
        str, typer.Option("--task-type", envvar=settings.AGENT_TASK_TYPE, show_default="the only one", help="Task type of the prompt to serve.")
    ] = "",
    provider: Annotated[
        str, typer.Option("--provider", envvar=settings.AGENT_PROVIDER, show_default="the only one", help="Provider that answers.")
    ] = "",
    mock_provider: Mock = False,
    host: Annotated[str, typer.Option("--host", envvar=settings.AGENT_HOST, help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", envvar=settings.AGENT_PORT, min=0, max=65535, help="Port to listen on; 0 takes any free one.")
    ] = DEFAULT_PORT,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", envvar=settings.AGENT_TOKEN_FILE, show_default="none", help="File with the bearer token that clients must show."
        ),
    ] = None,
    max_sessions: Annotated[
        int, typer.Option("--max-sessions", envvar=settings.AGENT_MAX_SESSIONS, min=1, help="Conversations at a time; further ones get 429.")
    ] = 200,
    idle: Annotated[
        float, typer.Option("--idle", envvar=settings.AGENT_IDLE, min=1, help="Seconds without a message after which a conversation ends.")
    ] = 600.0,
    allow_code: OwnCode = False,
    allow_code_network: OwnCodeNetwork = False,
    allow_code_unconfined: OwnCodeUnconfined = False,
    allow_network: AllowNetwork = None,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", envvar=settings.LOG_LEVEL, help="Least severe log lines to write.")
    ] = LogLevel.WARNING,
) -> None:
    """Serve a bundle's prompt, tools and provider as an agent, until it is interrupted."""
    import uvloop  # noqa: PLC0415 - the engine and its loop, only when they are needed

    from engine.agents.hosting import SessionLimits  # noqa: PLC0415 - same
    from engine.agents.served import Choice, ServedBundle, plan_agent  # noqa: PLC0415 - same
    from engine.agents.server import ServerOptions  # noqa: PLC0415 - same
    from engine.bundle import load_bundle  # noqa: PLC0415 - same
    from engine.conversation import ItemRunner  # noqa: PLC0415 - same
    from engine.providers.connections import Connections  # noqa: PLC0415 - same
    from foundation.clock import SystemClock  # noqa: PLC0415 - same

    configure_logging(log_level)
    token = _read_token(token_file)
    permissions = own_permissions(allow_network, code=allow_code, network_too=allow_code_network, unconfined=allow_code_unconfined)
    choice = Choice(scenario, task_type, provider, "" if mock_provider else None, permissions)
    bundle, plan = plan_agent(load_bundle(*locate(path)), choice)
    for warning in (*bundle.warnings, *plan.warnings):
        print_warning(warning)
    if not token and not is_loopback(host):
        print_warning(f"{host} can be reached from other machines, and anybody may talk to this agent; name a --token-file")

    async def run() -> None:
        runner = ItemRunner(bundle, plan, SystemClock(), Connections(settings.process_environment()))
        listener = listen(host, port, hint="name another --port, or 0 for any free one")
        address = f"{host}:{listener.getsockname()[1]}"
        try:
            served = ServedBundle(plan, runner)
            options = ServerOptions(token, max_sessions, SessionLimits(idle_s=idle))
            await _serve(served, options, listener, lambda: _welcome(address, plan.items[0].scenario, plan.items[0].provider))
        finally:
            await runner.close()

    with contextlib.suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        loop.run(run())


async def _serve(agent: "ServedBundle", options: "ServerOptions", listener: "socket.socket", welcome: Callable[[], None]) -> None:
    """Serve until a signal comes."""
    from arena.signals import stop_on_signals  # noqa: PLC0415 - as above
    from engine.agents.server import AgentServer  # noqa: PLC0415 - same

    stop = asyncio.Event()
    with stop_on_signals(stop.set):
        async with AgentServer(agent, options).serving(listener):
            welcome()
            await stop.wait()


def _read_token(file: Path | None) -> str:
    """Return the token in a file, "" without one.

    Raises:
        UsageError: the file cannot be read, or holds none.
    """
    if file is None:
        return ""
    try:
        with file.open("rb") as opened:
            token = opened.read(_MAX_TOKEN_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read token file '{file}': {getattr(error, 'strerror', None) or 'a token is ASCII'}") from error
    if not token or not token.isprintable() or " " in token:
        raise UsageError(f"cannot use token file '{file}': it must hold one word", hint="for example `openssl rand -hex 32`")
    return token


def _welcome(address: str, scenario: str, provider: str) -> None:
    """Say where the agent is, and what answers."""
    text = f"{paint('agent is up', 'bold')}  ws://{address}/ws  {scenario} answered by {provider}\n  in an AgentRuntime  spec.endpoint: {address}\n"
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
