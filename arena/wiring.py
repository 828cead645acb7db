"""Local mode put together: every port gets its adapter here. Cluster mode is `arena.cluster`'s.

SQLite store, directory as content volume, embedded queue server, Jobs as processes.
"""

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from arena.announcer import Announcer
from arena.app import ArenaApp
from arena.authorization.api_access import ApiAccess
from arena.authorization.entrance import Entrance, InTurn
from arena.authorization.failures import Failures
from arena.authorization.git_access import GitAccess
from arena.authorization.local_token import LocalToken
from arena.authorization.port import Authorizer
from arena.authorization.token_file import TokenFile
from arena.http_protocol import BoundedProtocol
from arena.listening import listen
from arena.local.job_runner import Host, JobRunner
from arena.local.kube_api import kube_api
from arena.local.log_sweep import LogSweep
from arena.local.processes import Processes
from arena.local.spare import Spare
from arena.local.state import StateDirectory
from arena.reconcilers import reconcilers_of
from arena.settings import worker_environment
from arena.signals import ended, stop_on_signals
from engine import worker_settings
from engine.permissions import NO_GRANTS, Grants
from engine.providers.prices import Price
from engine.queue.embedded import EmbeddedServer
from engine.queue.redis import RedisWorkQueue
from engine.queue.urls import without_credentials
from engine.version import ENGINE_VERSION
from foundation.addresses import AddressPolicy, Network
from foundation.clock import Clock, SystemClock
from gitops.content import ContentVolume
from gitops.mirrors import Mirrors
from gitops.processes import check_git
from gitops.repositories import Repositories
from gitops.smart_http import SmartHTTP
from gitops.snapshots import Snapshots
from hooks.receiver import Receiver
from hooks.web_server import WebServer, server_config
from reconcile.cluster.sqlite import SqliteCluster, admission_warnings
from reconcile.control_plane import ControlPlane
from reconcile.kinds.admission import admit, admit_status
from reconcile.run import RunWorld
from reconcile.sweep import Sweep
from reconcile.sync_requests import SyncRequests

SHUTDOWN_S = 3


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """What a person may choose of a local installation. `redis_url` "" starts a queue server of our own.

    `allowed_networks`: where remotes of external projects may be, besides public addresses. `token_file`: tokens for git beside the installation's own.
    `grants`: what the bundles of which projects may do. `worker_variables`: of our environment, workers get these besides what any program needs.
    `prices`: of models, before the packaged ones.
    """

    host: str
    port: int
    max_workers: int
    redis_url: str = ""
    allowed_networks: tuple[Network, ...] = ()
    token_file: Path | None = None
    grants: Grants = NO_GRANTS
    worker_variables: tuple[str, ...] = ()
    prices: Mapping[str, Price] = field(default_factory=dict)


class LocalArena:
    """One running local installation on a state directory that the caller has locked."""

    def __init__(self, state: StateDirectory, settings: LocalSettings, clock: Clock | None = None) -> None:
        self._state = state
        self._settings = settings
        self._clock = clock or SystemClock()
        self._queue_server = EmbeddedServer(state.root, clock=self._clock)

    async def run(self, ready: Callable[[str], None]) -> None:
        """Serve until SIGTERM or SIGINT; `ready` is called once with the address when everything answers.

        Raises:
            UsageError: the port is taken, or the token file cannot be used.
            CancelledError: SIGTERM came before everything was up.
            GitFailed: git is missing or too old.
            QueueUnavailable, StoreUnavailable: a part cannot start; the message says why.
        """
        starting = asyncio.current_task()
        if starting is not None:  # until there is a server to stop, SIGTERM ends the start, and what it has started ends with it
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, starting.cancel)
        await check_git()
        async with contextlib.AsyncExitStack() as stack:
            listener = stack.enter_context(contextlib.closing(_listener(self._settings)))
            host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
            url = f"http://{host}:{listener.getsockname()[1]}"
            cluster = SqliteCluster(self._state.database, self._clock, admit=admit, admit_status=admit_status)
            stack.push_async_callback(cluster.close)
            queue_url = await self._start_queue(stack)
            queue = RedisWorkQueue(queue_url, installation=self._state.installation())
            stack.push_async_callback(queue.close)
            stack.callback(self._state.withdraw)
            await self._serve(_Parts(cluster, queue, queue_url, url), listener, ready)

    async def _start_queue(self, stack: contextlib.AsyncExitStack) -> str:
        if self._settings.redis_url:
            return self._settings.redis_url
        stack.push_async_callback(self._queue_server.stop)
        return await self._queue_server.start()

    async def _serve(self, parts: "_Parts", listener: socket.socket, ready: Callable[[str], None]) -> None:
        volume = ContentVolume(self._state.content)
        repositories, snapshots = Repositories(volume, self._clock), Snapshots(volume, self._clock)
        mirrors = Mirrors(repositories, self._clock, addresses=AddressPolicy(self._settings.allowed_networks))
        server = await self._server(parts, repositories)
        host = self._host(parts.queue_url)
        processes = Processes(self._state.processes, Spare((sys.executable, "-m", "arena", "worker"), host.inherited))
        runner = JobRunner(parts.cluster, processes, host, self._clock)
        world = RunWorld(
            repositories,
            snapshots,
            mirrors,
            SyncRequests(parts.cluster),
            volume,
            parts.queue,
            image=f"arena:{ENGINE_VERSION}",
            installation=self._state.installation(),
            max_workers=self._settings.max_workers,
            grants=self._settings.grants,
            prices=self._settings.prices,
            users=parts.queue.users(without_credentials(parts.queue_url)),
        )
        duties = [self._control_plane(parts, world).run, runner.run]
        duties += [Sweep(parts.cluster, world, self._clock).run, LogSweep(parts.cluster, self._state.logs, self._clock).run]
        duties += [] if self._settings.redis_url else [self._queue_server.supervise]
        try:
            async with asyncio.TaskGroup() as group:
                background = [group.create_task(duty()) for duty in duties]
                with stop_on_signals(server.stop):
                    serving = group.create_task(server.serve(sockets=[listener]))
                    await server.ready.wait()
                    self._state.publish(parts.url, "" if self._settings.redis_url else parts.queue_url)
                    ready(parts.url)
                    await serving
                await ended(background)
        finally:
            await runner.stop()
            mirrors.close()

    async def _server(self, parts: "_Parts", repositories: Repositories) -> "Server":
        entrance = Entrance(InTurn(await self._authorizers()), Failures(self._clock))
        git = SmartHTTP(repositories, authorize=GitAccess(parts.cluster, entrance), on_change=Announcer(parts.cluster).announce)
        stopping = asyncio.Event()
        kube = kube_api(parts.cluster, warnings=admission_warnings, stopping=stopping)
        app = ArenaApp(git=git, hooks=Receiver(parts.cluster, self._clock), kube=kube, access=ApiAccess(entrance))
        return Server(server_config(app, BoundedProtocol, timeout_graceful_shutdown=SHUTDOWN_S), stopping)

    async def _authorizers(self) -> list[Authorizer]:
        own = LocalToken(self._state.token())
        if self._settings.token_file is None:
            return [own]
        tokens = TokenFile(self._settings.token_file, self._clock)
        await tokens.read()
        return [tokens, own]

    def _control_plane(self, parts: "_Parts", world: RunWorld) -> ControlPlane:
        return ControlPlane(parts.cluster, reconcilers_of(world, f"{parts.url}/git"), self._clock)

    def _host(self, queue_url: str) -> Host:
        environment: Mapping[str, str] = {worker_settings.REDIS_URL: queue_url, worker_settings.INSTALLATION: self._state.installation()}
        return Host(
            content=self._state.content,
            logs=self._state.logs,
            environment=lambda: environment,
            max_workers=self._settings.max_workers,
            inherited=worker_environment(self._settings.worker_variables),
        )


class Server(WebServer):
    """A server that is told to stop by us."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config, asyncio.Event())
        self._stopping = stopping

    def stop(self) -> None:
        """Take no new request, end the watches, and let the others come to their end."""
        self.should_exit = True
        self._stopping.set()


@dataclass(frozen=True, slots=True)
class _Parts:
    """What must be there before anything is served."""

    cluster: SqliteCluster
    queue: RedisWorkQueue
    queue_url: str
    url: str


def _listener(settings: LocalSettings) -> socket.socket:
    return listen(settings.host, settings.port, hint="choose another port with --port PORT, or 0 for any free one")
