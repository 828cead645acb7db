"""A kubelet for tests: runs the containers of pods as child processes, so that real workers run under the real Job controller.

It plays the scheduler, too: a pod of its namespaces that has no node is bound to its own. It knows restartPolicy Never alone, and no probes. What a
container says goes to `<folder>/logs/<namespace>/<pod>/<container>.log`.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.port import CONFIG_MAP, EVENT, POD, SECRET, Object
from reconcile.errors import AlreadyExists, NotFound
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.kubelet_container import Folders, NotStartable, Process, decoded, process_of, volumes_of

RETRY_S = 0.3
_PATH = os.pathsep.join((str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"))


@dataclass(slots=True)
class _Kept:
    """A pod of ours: as last seen, and whether it is to end, or is gone already."""

    pod: Object
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    gone: bool = False
    serving: asyncio.Task[None] | None = None


@dataclass(slots=True)
class _Running:
    """A container's process, and since when it runs."""

    name: str
    child: asyncio.subprocess.Process
    since: str


class Kubelet:
    """Runs the pods of namespaces. `claims` maps a PersistentVolumeClaim's name to its folder; they need not exist as objects."""

    def __init__(self, plane: ControlPlane, cluster: KubeCluster, folder: Path, *, namespaces: Sequence[str], claims: Mapping[str, Path]) -> None:
        self.node = "node-0"
        self.logs = folder / "logs"
        self._plane = plane
        self._cluster = cluster
        self._folder = folder
        self._namespaces = frozenset(namespaces)
        self._claims = claims
        self._kept: dict[str, _Kept] = {}

    async def run(self) -> None:
        """Work until cancelled; then every process is killed and its pod left as it was, as when a node loses its power."""
        async with asyncio.TaskGroup() as group:
            async for event in self._cluster.watch(POD, None, ""):
                self._heed(group, event.object, gone=event.type == "DELETED")

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

    def _heed(self, group: asyncio.TaskGroup, pod: Object, *, gone: bool) -> None:
        metadata, status = pod["metadata"], pod.get("status") or {}
        kept = self._kept.get(metadata["uid"])
        if kept is None:
            mine = metadata["namespace"] in self._namespaces and pod["spec"].get("nodeName") in (None, self.node)
            if not mine or gone or status.get("phase") not in (None, "Pending", "Running"):
                return
            kept = self._kept[metadata["uid"]] = _Kept(pod)
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
            processes = await self._prepared(kept)
            running = await self._start(kept, processes)
            try:
                await self._write(kept, "Running", running)
                await self._wait(kept, running)
            finally:
                for each in running:
                    _kill(each)
            for each in running:
                await each.child.wait()
            failed = any(each.child.returncode for each in running) or not running
            await self._write(kept, "Failed" if failed else "Succeeded", running)
            if kept.leaving.is_set():
                await self._ask("DELETE", kept.pod, "", {"gracePeriodSeconds": 0, "preconditions": {"uid": kept.pod["metadata"]["uid"]}})

    async def _bind(self, pod: Object) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]}, "target": target}
        await self._ask("POST", pod, "/binding", body)

    async def _ask(self, method: str, pod: Object, path: str, body: Mapping[str, Any]) -> None:
        """Ask the server for what our port has no words for; a pod that is gone needs nothing."""
        where = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}{path}"
        try:
            (await asyncio.to_thread(self._plane.ask, method, where, body)).close()
        except HTTPError as error:
            if error.code not in (404, 409):
                raise
            error.close()

    async def _prepared(self, kept: _Kept) -> list[Process]:
        """Return what to start, as soon as everything that the pod names is there; nothing for a pod that is to end."""
        said = ""
        while not kept.leaving.is_set():
            try:
                return await self._processes(kept.pod)
            except NotStartable as trouble:
                if str(trouble) != said:
                    said = str(trouble)
                    await self._say(kept, trouble)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(kept.leaving.wait(), RETRY_S)
        return []

    async def _processes(self, pod: Object) -> list[Process]:
        namespace = pod["metadata"]["namespace"]

        async def read(kind: str, name: str) -> Mapping[str, str]:
            try:
                return decoded(await self._cluster.get(SECRET if kind == "Secret" else CONFIG_MAP, namespace, name))
            except NotFound as error:
                raise NotStartable("FailedMount", f'{kind.lower()} "{name}" not found') from error

        volumes = await volumes_of(pod, Folders(self._claims, self._folder / "pods" / pod["metadata"]["uid"]), read)
        return [await process_of(pod, container, volumes, read, _PATH) for container in pod["spec"]["containers"]]

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
            running.append(_Running(process.name, child, _now()))
        return running

    async def _wait(self, kept: _Kept, running: Sequence[_Running]) -> None:
        """Wait until every process has ended. A pod that is to end gets its grace period for that, one that is gone none."""
        ended = asyncio.gather(*(each.child.wait() for each in running))
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
        ready = str(phase == "Running")
        kinds = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": ready, "Ready": ready}
        images = {container["name"]: container["image"] for container in kept.pod["spec"]["containers"]}
        status = {
            "phase": phase,
            "conditions": [{"type": kind, "status": value, "lastTransitionTime": _now()} for kind, value in kinds.items()],
            "startTime": running[0].since if running else _now(),
            "containerStatuses": [
                {
                    "name": each.name,
                    "image": images[each.name],
                    "imageID": "",
                    "ready": phase == "Running",
                    "started": phase == "Running",
                    "restartCount": 0,
                    "state": _state(each),
                }
                for each in running
            ],
        }
        await self._cluster.patch_status(POD, kept.pod["metadata"]["namespace"], kept.pod["metadata"]["name"], status)

    async def _say(self, kept: _Kept, trouble: NotStartable) -> None:
        """Tell what keeps a pod from starting as a kubelet does: a mount that fails by an event, the rest by the status."""
        metadata = kept.pod["metadata"]
        mounting = trouble.reason == "FailedMount"
        waiting = {"reason": "ContainerCreating"} if mounting else {"reason": trouble.reason, "message": str(trouble)}
        container = kept.pod["spec"]["containers"][0]
        shown = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"waiting": waiting},
        }
        await self._cluster.patch_status(POD, metadata["namespace"], metadata["name"], {"phase": "Pending", "containerStatuses": [shown]})
        if not mounting:
            return
        about = {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
        event = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": f"{metadata['name']}.mount", "namespace": metadata["namespace"]},
            "type": "Warning",
            "reason": trouble.reason,
            "message": str(trouble),
            "involvedObject": about,
            "lastTimestamp": _now(),
        }
        with contextlib.suppress(AlreadyExists):
            await self._cluster.create(event)


@contextlib.asynccontextmanager
async def kubelet(
    plane: ControlPlane, cluster: KubeCluster, folder: Path, *, namespaces: Sequence[str], claims: Mapping[str, Path]
) -> AsyncIterator[Kubelet]:
    """Run a kubelet for a while; its processes end with it."""
    own = Kubelet(plane, cluster, folder, namespaces=namespaces, claims=claims)
    running = asyncio.ensure_future(own.run())
    try:
        yield own
    finally:
        stopped = running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        assert stopped, "the kubelet ended by itself"


def _state(running: _Running) -> dict[str, Any]:
    code = running.child.returncode
    if code is None:
        return {"running": {"startedAt": running.since}}
    number = 128 - code if code < 0 else code
    ended = {"exitCode": number, "reason": "Error" if number else "Completed", "startedAt": running.since, "finishedAt": _now()}
    return {"running": None, "terminated": ended}


def _ask_to_end(running: _Running) -> None:
    """Tell the container's first process alone, as a container runtime does."""
    with contextlib.suppress(ProcessLookupError):
        running.child.terminate()


def _kill(running: _Running) -> None:
    """End the first process and all that it has started."""
    if running.child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.child.pid, signal.SIGKILL)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
