"""Arena installed by `kubectl apply -k` on a control plane with a node that runs its pods: what is applied is what is shipped, byte for byte.

Only what a cluster has besides is played: disks, a node, addresses, somebody else's queue. Every wait is a deadline on a condition.
"""

import asyncio
import json
import secrets
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from engine.queue.embedded import find_server
from tests.apiserver.audit import AuditLog
from tests.apiserver.binary import BinaryMissing, programs
from tests.apiserver.control_plane import ControlPlane, Extras, started
from tests.apiserver.installation import QueueServer
from tests.apiserver.kubelet import Kubelet, Machine, kubelet
from tests.apiserver.kubelet_room import in_room, rooms_can_be_made
from tests.apiserver.server_fixture import connected
from tests.apiserver.services import egress_arguments

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
SYSTEM, TEAM = "arena-system", "arena"
DEADLINE_S = 120.0
SLOW: Final = [pytest.mark.slow, pytest.mark.timeout(500, func_only=True)]
"""Marks of a test on a cluster of its own."""
_CONTROLLERS = (
    *("deployment-controller", "replicaset-controller", "statefulset-controller", "clusterrole-aggregation-controller"),
    *("persistentvolume-binder-controller", "persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller"),
)
# The right that OpenShift and careful clusters ask for.
_ADMISSION = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
T = TypeVar("T")


class Installation:
    """A cluster, and what an operator does to it. `content` and `queue` are disks of its node."""

    def __init__(self, plane: ControlPlane, audit: AuditLog, node: Kubelet, folder: Path) -> None:
        self.plane = plane
        self.audit = audit
        self.content = folder / "content"
        self._node = node
        self._others_queue = QueueServer(folder / "others-queue")

    async def kubectl(self, *words: str) -> str:
        """Run kubectl to its end, and return what it printed; a warning is a failure, too."""
        done = await self.asked(*words)
        assert (done.returncode, done.stderr) == (0, ""), f"kubectl {' '.join(words)}: {done.stderr}\n{self.logs()}"
        return done.stdout

    async def asked(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run kubectl to its end, whatever that is."""

        def run() -> subprocess.CompletedProcess[str]:
            return self.plane.kubectl(*words, deadline_s=DEADLINE_S)

        try:
            return await asyncio.to_thread(run)
        except subprocess.TimeoutExpired as late:
            listed = await asyncio.to_thread(self.plane.kubectl, "get", "namespaces,pods,jobs,pvc,crd", "-A", "-o", "wide")
            raise AssertionError(f"kubectl {' '.join(words)} took too long; it said {late.output}\n{listed.stdout}\n{self.logs()}") from None

    async def get(self, *words: str) -> Any:
        """Return what `kubectl get` shows."""
        return json.loads(await self.kubectl("get", "-o", "json", *words))

    async def objects(self) -> frozenset[str]:
        """Return every object of the cluster, of whatever kind, as `kind.group namespace/name`; Events are none of anybody's."""
        row = '{range .items[*]}{.kind}.{.apiVersion} {.metadata.namespace}/{.metadata.name}{"\\n"}{end}'

        async def look() -> frozenset[str] | None:
            kinds = (await self.kubectl("api-resources", "--verbs=list,delete", "-o", "name")).split()
            kinds = [kind for kind in kinds if kind.partition(".")[0] != "events"]
            done = await self.asked("get", ",".join(kinds), "-A", "-o", f"jsonpath={row}")  # with warnings of kinds that are on their way out
            return None if done.returncode else frozenset(done.stdout.splitlines())  # a kind may go in between

        return await eventually(look, self)

    async def install(self, overlay: str) -> None:
        """Do what docs/cluster.md says, and wait until everything is at work."""
        await self.apply(overlay)
        await self.kubectl("create", "secret", "generic", "arena-queue", "-n", SYSTEM, f"--from-literal={self._queue(overlay)}")
        await self.await_workloads()

    async def await_workloads(self) -> None:
        """Wait until every Deployment and StatefulSet of ours has all its replicas ready."""
        for workload in (await self.kubectl("get", "-n", SYSTEM, "deployments,statefulsets", "-o", "name")).split():
            await self.kubectl("rollout", "status", "-n", SYSTEM, workload)

    def _queue(self, overlay: str) -> str:
        """Return what the Secret of the queue holds."""
        if overlay == "single-node":
            return f"password={secrets.token_hex(16)}"
        self._others_queue.start()
        return f"url={self._others_queue.url}"

    async def apply(self, overlay: str) -> str:
        """Apply an overlay."""
        return await self.kubectl("apply", "-k", str(MANIFESTS / "overlays" / overlay))

    async def apply_objects(self, folder: Path, *objects: Mapping[str, Any]) -> None:
        """Apply objects in the team's namespace; `folder` is for the file."""
        file = folder / "objects.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        await self.kubectl("apply", "-n", TEAM, "-f", str(file))

    async def remove_objects(self) -> None:
        """Do what docs/cluster.md says is done before an overlay is deleted: a job's runs go after it, and need the controller."""
        await self.kubectl("delete", "arenajobs,arenaruns,arenaprojects", "--all", "-A")

    async def versions(self, overlay: str) -> dict[str, str]:
        """Return a word for each object of an overlay that changes when somebody writes it; what has a generation may change its status."""
        listing = json.loads(await self.kubectl("get", "-k", str(MANIFESTS / "overlays" / overlay), "-o", "json"))
        found = {}
        for obj in listing["items"]:
            metadata = obj["metadata"]
            found[f"{obj['kind']} {metadata.get('namespace', '')}/{metadata['name']}"] = str(metadata.get("generation", metadata["resourceVersion"]))
        return found

    async def verdicts(self, project: str) -> dict[str, str]:
        """Return the phases of a project's runs, by the run's name, when all of them have ended."""

        async def look() -> dict[str, str] | None:
            runs = [run for run in (await self.get("arenaruns", "-n", TEAM))["items"] if run["spec"]["template"]["sourceRef"]["name"] == project]
            phases = {run["metadata"]["name"]: (run.get("status") or {}).get("phase", "") for run in runs}
            return phases if phases and set(phases.values()) <= {"Succeeded", "Failed", "Cancelled"} else None

        return await eventually(look, self)

    def logs(self) -> str:
        """Return the ends of all containers' logs."""
        found = sorted(self._node.logs.rglob("*.log"))
        return "\n".join(f"--- {path.relative_to(self._node.logs)}\n{path.read_text(errors='replace')[-3000:]}" for path in found)

    def end(self) -> None:
        """End what is somebody else's."""
        self._others_queue.kill()


@asynccontextmanager
async def cluster_in(folder: Path) -> AsyncIterator[Installation]:
    """Run a cluster with nothing of ours on it."""
    content, queue = folder / "content", folder / "queue"
    content.mkdir()
    queue.mkdir()
    with _control_plane(folder) as (plane, audit):
        client = connected(plane)
        claims = {"arena-content": content, "arena-queue": queue}
        machine = Machine(in_room, (find_server().parent,), folder)
        try:
            async with kubelet(plane, client, folder / "node", namespaces=None, claims=claims, machine=machine) as node:
                installation = Installation(plane, audit, node, folder)
                try:
                    yield installation
                finally:
                    installation.end()
        finally:
            await client.close()


@contextmanager
def _control_plane(folder: Path) -> Iterator[tuple[ControlPlane, AuditLog]]:
    if not rooms_can_be_made():
        pytest.skip("containers need mount namespaces, which only root may make")
    try:
        binaries = programs()
    except BinaryMissing as missing:
        pytest.skip(str(missing))
    audit = AuditLog(folder)
    plane = started(binaries, folder, Extras((*audit.arguments, *egress_arguments(folder), _ADMISSION), _CONTROLLERS, service_accounts=True))
    try:
        plane.start_controllers()
        yield plane, audit
    finally:
        plane.stop()


async def eventually(look: Callable[[], Awaitable[T | None]], installation: Installation) -> T:
    """Return what is found, looking until something is."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not (found := await look()):  # noqa: ASYNC110 - the test is nobody's watcher
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(f"it took too long:\n{installation.logs()}") from None
    return found
