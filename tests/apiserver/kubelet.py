"""A kubelet for tests: runs the containers of pods as child processes, so that real workers run under the real Job controller.

It plays the scheduler, too: a pod of its namespaces that has no node is bound to its own. Pods that are started again have one container, and of probes it
asks for readiness alone. A container port is a free port of this machine, in every word and variable that is its number; names of Services in variables
lead to ready pods. It outlasts an API server that is away: containers go on, and what is to be told is told later. What a container says goes to `<folder>/logs/<namespace>/<pod>/<container>.log`.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.port import CONFIG_MAP, POD, SECRET, Object
from reconcile.errors import AlreadyExists, Gone, NotFound, StoreUnavailable
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.kubelet_container import Folders, NotStartable, Process, Runtime, decoded, in_folders, process_of, volumes_of
from tests.apiserver.kubelet_probe import answers
from tests.apiserver.kubelet_status import Seen, mount_event, now, pod_status, waiting_status
from tests.apiserver.services import Services
from tests.ports import free_ports

T = TypeVar("T")

RETRY_S = 0.3
AGAIN_S = 1.0
_PATH = os.pathsep.join((str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"))


@dataclass(frozen=True, slots=True)
class Machine:
    """What a node is made of: how its containers see their mounts, where else their programs are, and where API servers look for its pods (`egress`)."""

    runtime: Runtime = in_folders
    programs: tuple[Path, ...] = ()
    egress: Path | None = None


PLAIN = Machine()


@dataclass(slots=True)
class _Kept:
    """A pod of ours: as last seen, and whether it is to end, or is gone already. `ports`: of its containers to this machine's."""

    pod: Object
    ports: Mapping[int, int]
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    gone: bool = False
    ready: bool = False
    restarts: int = 0
    serving: asyncio.Task[None] | None = None


@dataclass(slots=True)
class _Running:
    """A container's process, and since when it runs."""

    name: str
    child: asyncio.subprocess.Process
    since: str


class Kubelet:
    """Runs the pods of namespaces, None: of all. `claims` maps a PersistentVolumeClaim's name to its folder; they need not exist as objects."""

    def __init__(
        self,
        plane: ControlPlane,
        cluster: KubeCluster,
        folder: Path,
        *,
        namespaces: Sequence[str] | None,
        claims: Mapping[str, Path],
        machine: Machine = PLAIN,
    ) -> None:
        self.node = "node-0"
        self.logs = folder / "logs"
        self.services = Services(plane, self._ready_ports)
        self._plane = plane
        self._cluster = cluster
        self._folder = folder
        self._namespaces = namespaces
        self._claims = claims
        self._machine = machine
        self._kept: dict[str, _Kept] = {}

    async def run(self) -> None:
        """Work until cancelled; then every process is killed and its pod left as it was, as when a node loses its power."""
        async with self.services.serving(self._machine.egress), asyncio.TaskGroup() as group:
            while True:
                await _patiently(lambda: self._follow(group))

    async def lose_power(self) -> None:
        """Kill every process, tell nobody, and come back as another node, which has never heard of the pods of this one."""
        lost = [kept.serving for kept in self._kept.values() if kept.serving]
        for task in lost:
            task.cancel()
        await asyncio.gather(*lost, return_exceptions=True)
        self._kept.clear()
        self.node = f"{self.node}-again"

    def log(self, pod: Object, container: str) -> Path:
        """Return where a container's output is."""
        return self.logs.joinpath(pod["metadata"]["namespace"], pod["metadata"]["name"], f"{container}.log")

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        """Heed pods, those that are there first, for as long as the API server tells of them."""
        async for event in self._cluster.watch(POD, None, ""):
            self._heed(group, event.object, gone=event.type == "DELETED")

    def _heed(self, group: asyncio.TaskGroup, pod: Object, *, gone: bool) -> None:
        metadata, status = pod["metadata"], pod.get("status") or {}
        kept = self._kept.get(metadata["uid"])
        if kept is None:
            mine = (self._namespaces is None or metadata["namespace"] in self._namespaces) and pod["spec"].get("nodeName") in (None, self.node)
            if not mine or gone or status.get("phase") not in (None, "Pending", "Running"):
                return
            kept = self._kept[metadata["uid"]] = _Kept(pod, _ports_of(pod))
            kept.serving = group.create_task(self._serve(kept))
        kept.pod = pod
        kept.gone = gone
        if gone or "deletionTimestamp" in metadata:
            kept.leaving.set()

    async def _serve(self, kept: _Kept) -> None:
        """Bring a pod from its binding to its end."""
        with contextlib.suppress(NotFound):
            if "nodeName" not in kept.pod["spec"]:
                await self._bind(kept.pod)
            running: list[_Running] = []
            while not kept.leaving.is_set():
                running = await self._lived(kept)
                if kept.pod["spec"].get("restartPolicy") == "Never" or not running:
                    break
                kept.restarts += 1
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(kept.leaving.wait(), AGAIN_S)
            failed = any(each.child.returncode for each in running) or not running
            await self._write(kept, "Failed" if failed else "Succeeded", running)
            if kept.leaving.is_set():
                await self._ask("DELETE", kept.pod, "", {"gracePeriodSeconds": 0, "preconditions": {"uid": kept.pod["metadata"]["uid"]}})

    async def _lived(self, kept: _Kept) -> list[_Running]:
        """Start a pod's containers, and return them when they have ended; none when the pod is to end before they could be started."""
        running = await self._start(kept, await self._prepared(kept))
        probes = {container["name"]: container.get("readinessProbe") for container in kept.pod["spec"]["containers"]}
        try:
            kept.ready = not any(probes.values())
            await self._write(kept, "Running", running)
            asking = asyncio.ensure_future(self._probe(kept, running, [probe for probe in probes.values() if probe]))
            try:
                await self._wait(kept, running)
            finally:
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
        finally:
            kept.ready = False
            for each in running:
                _kill(each)
            for each in running:  # also when this is cancelled: what is left running would outlive the event loop
                await each.child.wait()
        return running

    async def _probe(self, kept: _Kept, running: Sequence[_Running], probes: Sequence[Mapping[str, Any]]) -> None:
        """Keep a pod's readiness up to date."""
        while probes:
            ready = all([await answers(probe, kept.ports[_port(kept.pod, (probe.get("httpGet") or probe["tcpSocket"])["port"])]) for probe in probes])
            if ready != kept.ready:
                kept.ready = ready
                await self._write(kept, "Running", running)
            await asyncio.sleep(RETRY_S)

    def _ready_ports(self, namespace: str, selector: Mapping[str, str], port: int | str) -> list[int]:
        """Return where the ready pods of a Service answer."""
        pods = [kept for kept in self._kept.values() if kept.ready and not kept.leaving.is_set() and kept.pod["metadata"]["namespace"] == namespace]
        chosen = [kept for kept in pods if selector.items() <= kept.pod["metadata"].get("labels", {}).items()]
        return [kept.ports[_port(kept.pod, port)] for kept in chosen]

    async def _bind(self, pod: Object) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]}, "target": target}
        await self._ask("POST", pod, "/binding", body)

    async def _ask(self, method: str, pod: Object, path: str, body: Mapping[str, Any]) -> None:
        """Ask the server for what our port has no words for; a pod that is gone needs nothing."""
        where = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}{path}"
        try:
            (await self._said(method, where, body)).close()
        except HTTPError as error:
            if error.code not in (404, 409):
                raise
            error.close()

    async def _said(self, method: str, where: str, body: Mapping[str, Any]) -> Any:
        """Return the open answer to a request that our port has no words for."""
        return await _patiently(lambda: asyncio.to_thread(self._plane.ask, method, where, body))

    async def _prepared(self, kept: _Kept) -> list[Process]:
        """Return what to start, as soon as everything that the pod names is there; nothing for a pod that is to end."""
        said = ""
        while not kept.leaving.is_set():
            try:
                return await self._processes(kept.pod, kept.ports)
            except NotStartable as trouble:
                if str(trouble) != said:
                    said = str(trouble)
                    await self._say(kept, trouble)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(kept.leaving.wait(), RETRY_S)
        return []

    async def _processes(self, pod: Object, ports: Mapping[int, int]) -> list[Process]:
        namespace = pod["metadata"]["namespace"]

        async def read(kind: str, name: str) -> Mapping[str, str]:
            try:
                return decoded(await _patiently(lambda: self._cluster.get(SECRET if kind == "Secret" else CONFIG_MAP, namespace, name)))
            except NotFound as error:
                raise NotStartable("FailedMount", f'{kind.lower()} "{name}" not found') from error

        async def token(expiration_s: int) -> str:
            bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            body = {"spec": {"expirationSeconds": expiration_s, "boundObjectRef": bound}}
            where = f"/api/v1/namespaces/{namespace}/serviceaccounts/{pod['spec']['serviceAccountName']}/token"
            with await self._said("POST", where, body) as answer:
                return str(json.load(answer)["status"]["token"])

        home = self._folder / "pods" / pod["metadata"]["uid"]
        volumes = await volumes_of(pod, Folders(self._claims, home), read, token)
        processes = [await process_of(pod, container, volumes, read, self._base()) for container in pod["spec"]["containers"]]
        return [self._machine.runtime(await self._addressed(process, ports), home) for process in processes]

    def _base(self) -> dict[str, str]:
        """Return the variables of every container."""
        server = urlsplit(self._plane.url)
        path = os.pathsep.join([*map(str, self._machine.programs), _PATH])
        return {"PATH": path, "KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}

    async def _addressed(self, process: Process, ports: Mapping[int, int]) -> Process:
        """Return a process that knows the addresses of this machine."""
        own = {str(port): str(number) for port, number in ports.items()}
        variables = {name: own.get(value) or await self.services.resolved(value) for name, value in process.environment.items()}
        return replace(process, words=tuple(own.get(word, word) for word in process.words), environment=variables)

    async def _start(self, kept: _Kept, processes: Sequence[Process]) -> list[_Running]:
        home = self._folder / "pods" / kept.pod["metadata"]["uid"]
        home.mkdir(parents=True, exist_ok=True)
        running = []
        for process in processes:
            log = self.log(kept.pod, process.name)
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as stream:
                child = await asyncio.create_subprocess_exec(
                    *process.words,
                    env=dict(process.environment),
                    cwd=home,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=stream,
                    stderr=stream,
                    start_new_session=True,
                )
            running.append(_Running(process.name, child, now()))
        return running

    async def _wait(self, kept: _Kept, running: Sequence[_Running]) -> None:
        """Wait until every process has ended. A pod that is to end gets its grace period for that, one that is gone none."""
        ended = asyncio.ensure_future(_ended(running))
        leaving = asyncio.ensure_future(kept.leaving.wait())
        try:
            await asyncio.wait((ended, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not ended.done() and not kept.gone:
                for each in running:
                    _ask_to_end(each)
                await asyncio.wait((ended,), timeout=float(kept.pod["metadata"].get("deletionGracePeriodSeconds") or 0))
        finally:
            leaving.cancel()
            ended.cancel()

    async def _write(self, kept: _Kept, phase: str, running: Sequence[_Running]) -> None:
        seen = [Seen(each.name, each.child.returncode, each.since, kept.restarts) for each in running]
        status = pod_status(kept.pod, phase, seen, is_ready=phase == "Running" and kept.ready)
        await _patiently(lambda: self._cluster.patch_status(POD, kept.pod["metadata"]["namespace"], kept.pod["metadata"]["name"], status))

    async def _say(self, kept: _Kept, trouble: NotStartable) -> None:
        """Tell what keeps a pod from starting as a kubelet does: a mount that fails by an event, the rest by the status."""
        metadata = kept.pod["metadata"]
        await _patiently(lambda: self._cluster.patch_status(POD, metadata["namespace"], metadata["name"], waiting_status(kept.pod, trouble)))
        event = mount_event(kept.pod, trouble)
        if event is not None:
            with contextlib.suppress(AlreadyExists):
                await _patiently(lambda: self._cluster.create(dict(event)))


@contextlib.asynccontextmanager
async def kubelet(
    plane: ControlPlane,
    cluster: KubeCluster,
    folder: Path,
    *,
    namespaces: Sequence[str] | None,
    claims: Mapping[str, Path],
    machine: Machine = PLAIN,
) -> AsyncIterator[Kubelet]:
    """Run a kubelet for a while; its processes end with it."""
    own = Kubelet(plane, cluster, folder, namespaces=namespaces, claims=claims, machine=machine)
    running = asyncio.ensure_future(own.run())
    try:
        yield own
    finally:
        stopped = running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        assert stopped, "the kubelet ended by itself"


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until the API server answers; what it refuses is its answer."""
    while True:
        try:
            return await ask()
        except (StoreUnavailable, Gone):
            pass
        except HTTPError as error:
            if error.code < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            error.close()
        except (URLError, ConnectionError, TimeoutError):
            pass
        await asyncio.sleep(RETRY_S)


async def _ended(running: Sequence[_Running]) -> None:
    for each in running:
        await each.child.wait()


def _ports_of(pod: Object) -> dict[int, int]:
    """Return a free port of this machine for each port that the containers of a pod declare."""
    ports = [port["containerPort"] for container in pod["spec"]["containers"] for port in container.get("ports") or ()]
    return dict(zip(ports, free_ports(len(ports)), strict=True))


def _port(pod: Object, wanted: int | str) -> int:
    """Return the number of a container port that is named or numbered."""
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports") or ()]
    return next(int(port["containerPort"]) for port in ports if wanted in (port.get("name"), port["containerPort"]))


def _ask_to_end(running: _Running) -> None:
    """Tell the container's first process alone, as a container runtime does."""
    with contextlib.suppress(ProcessLookupError):
        running.child.terminate()


def _kill(running: _Running) -> None:
    """End the first process and all that it has started."""
    if running.child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.child.pid, signal.SIGKILL)
