"""Our webhook as a process would run it, in a thread with an event loop and a client of its own, and its registration at a control plane."""

import asyncio
import json
import socket
import threading
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import uvloop

from arena.http_protocol import BoundedProtocol
from foundation.clock import Clock, SystemClock
from hooks.admission import PATH
from hooks.admission_registration import Registration, webhook_configuration
from hooks.admission_server import AdmissionServer
from hooks.certificate_sources import MountedCertificates, SecretCertificates
from reconcile.cluster.port import ObjectKey
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.server_fixture import connected
from tests.ports import free_ports

NAME = "arena"
SECRET = ObjectKey("default", "arena-webhook")
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
DEADLINE_S = 30.0


@dataclass(frozen=True)
class Said:
    """What the API server answered to a write."""

    code: int
    body: dict[str, Any]
    warnings: list[str]

    @property
    def fields(self) -> list[str]:
        """Return the fields that a refusal names."""
        return [cause.get("field", "") for cause in (self.body.get("details") or {}).get("causes") or ()]

    @property
    def message(self) -> str:
        """Return the words of a refusal."""
        return str(self.body.get("message", ""))

    @property
    def is_unanswered(self) -> bool:
        """Say whether the write was refused because the webhook could not be asked."""
        return "failed calling webhook" in self.message


def say(plane: ControlPlane, method: str, path: str, body: dict[str, Any] | None = None, **headers: str) -> Said:
    """Send a request and return what was answered, whatever it is."""
    try:
        with plane.ask(method, path, body, **headers) as answer:
            return Said(answer.status, json.load(answer), answer.headers.get_all("Warning") or [])
    except urllib.error.HTTPError as error:
        with error:
            return Said(error.code, json.loads(error.read()), error.headers.get_all("Warning") or [])


def jobs_path(namespace: str = "arena") -> str:
    """Return the path of a namespace's ArenaJobs for a write that is only tried."""
    return f"/apis/omnia.altairalabs.ai/v1alpha1/namespaces/{namespace}/arenajobs?dryRun=All"


def a_job(namespace: str = "arena", **spec: Any) -> dict[str, Any]:
    """Return an ArenaJob."""
    metadata = {"name": "probe", "namespace": namespace}
    return {"apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "ArenaJob", "metadata": metadata, "spec": {"sourceRef": {"name": "src"}, **spec}}


REFUSED = {"arenaFile": "/etc/passwd"}
"""Part of a job's spec that only the webhook refuses."""


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + DEADLINE_S
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"it took too long: {what}")
        time.sleep(0.02)


class Webhook:
    """One replica on a port of its own, with a certificate of its own making or with one that is mounted in `folder`."""

    def __init__(self, plane: ControlPlane, clock: Clock | None = None, folder: Path | None = None) -> None:
        self.port = free_ports(1)[0]
        self.url = f"https://127.0.0.1:{self.port}{PATH}"
        self._plane = plane
        self._clock = clock or SystemClock()
        self._folder = folder
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)

    def start(self) -> None:
        """Start to serve, and return when it does."""
        self._thread.start()
        assert self._started.wait(DEADLINE_S)

    def stop(self) -> None:
        """End it in order."""
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()

    def refresh(self) -> bool:
        """Have it look at its certificate now."""
        return asyncio.run_coroutine_threadsafe(self.server.refresh(), self._loop).result(DEADLINE_S)

    def _live(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as a controller runs
            runner.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        cluster = connected(self._plane)
        own = SecretCertificates(cluster, SECRET, ["127.0.0.1"], self._clock)
        source = MountedCertificates(self._folder) if self._folder else own
        self.server = AdmissionServer(source, Registration(cluster, NAME), SystemClock(), BoundedProtocol)
        self._task = asyncio.create_task(self.server.run(socket.create_server(("127.0.0.1", self.port))))
        try:
            await self.server.ready.wait()
            self._started.set()
            await asyncio.wait({self._task})
        finally:
            await cluster.close()


@contextmanager
def unreachable(plane: ControlPlane) -> Iterator[None]:
    """Register a webhook that nobody serves, for as long as the block runs."""
    plane.install(webhook_configuration(NAME, {"url": f"https://127.0.0.1:{free_ports(1)[0]}{PATH}"}))
    try:
        until(lambda: say(plane, "POST", jobs_path(), a_job()).is_unanswered, "the API server asks the webhook")
        yield
    finally:
        say(plane, "DELETE", f"{CONFIGURATIONS}/{NAME}")
        until(lambda: say(plane, "POST", jobs_path(), a_job()).code == HTTPStatus.CREATED, "the API server lets go of the webhook")


@contextmanager
def serving_webhook(plane: ControlPlane, clock: Clock | None = None, folder: Path | None = None) -> Iterator[Webhook]:
    """Run one replica and have the API server ask it."""
    webhook = Webhook(plane, clock, folder)
    plane.install(webhook_configuration(NAME, {"url": webhook.url}))
    try:
        webhook.start()
        until(lambda: say(plane, "POST", jobs_path(), a_job(**REFUSED)).code == HTTPStatus.UNPROCESSABLE_ENTITY, "the API server asks the webhook")
        yield webhook
    finally:
        webhook.stop()
        say(plane, "DELETE", f"{CONFIGURATIONS}/{NAME}")
        until(lambda: say(plane, "POST", jobs_path(), a_job(**REFUSED)).code == HTTPStatus.CREATED, "the API server lets go of the webhook")
        say(plane, "DELETE", f"/api/v1/namespaces/{SECRET.namespace}/secrets/{SECRET.name}")
