"""`arena controller` put together: one of several equal replicas, of which one leads.

Every replica answers probes and admission reviews; the leader alone runs the reconcilers and the sweep, over a store that takes its writes only
while it certainly leads. What a leader made for its time, its memory above all, ends with it: the next time begins afresh.
"""

import asyncio
import contextlib
from typing import Final

import structlog

from arena.cluster.checks import ApiServerAnswers, QueueAnswers
from arena.cluster.content import SharedContent
from arena.cluster.lifetime import Duty, live
from arena.cluster.ownership import Ownership
from arena.cluster.placing import placed
from arena.cluster.probes import Check, Probes, Readiness
from arena.cluster.serving import serve
from arena.cluster.settings import ControllerSettings, Webhook
from arena.cluster.workspaces import Workspaces
from arena.http_protocol import BoundedProtocol
from arena.listening import listen
from arena.reconcilers import reconcilers_of
from engine.queue.redis import RedisWorkQueue
from foundation.addresses import AddressPolicy
from foundation.clock import Clock, SystemClock
from gitops.content import ContentVolume
from gitops.errors import StorageFailed
from gitops.mirrors import Mirrors
from gitops.processes import check_git
from gitops.repositories import Repositories
from gitops.snapshots import Snapshots
from hooks.admission_registration import Registration
from hooks.admission_server import AdmissionServer
from hooks.certificate_sources import CertificateSource, MountedCertificates, SecretCertificates
from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.kube_access import Access
from reconcile.cluster.port import Cluster, ObjectKey
from reconcile.control_plane import ControlPlane
from reconcile.errors import ClusterError, LeadershipLost
from reconcile.run import RunWorld
from reconcile.runtime.fence import FencedCluster
from reconcile.runtime.leader import Leadership
from reconcile.sweep import Sweep
from reconcile.sync_requests import SyncRequests
from reconcile.worker_job import ClusterPods

FAILURES_BY_INDEX: Final = (1, 33)
"""The first version of Kubernetes that counts a Job's failures for each index."""
RETRY_S: Final = 2.0
CERTIFICATE: Final = "certificate"
"""The check of what reviews need."""

log = structlog.get_logger(__name__)


class ControllerProcess:
    """One replica of the controller."""

    def __init__(self, settings: ControllerSettings, access: Access, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._cluster = KubeCluster(access, self._clock)
        self._queue = RedisWorkQueue(settings.redis_url, installation=settings.installation)
        self._leadership = Leadership(self._cluster, ObjectKey(settings.namespace, f"{settings.installation}-controller"), self._clock)
        self._content = SharedContent(settings.replica.content, self._clock)
        self._ownership = Ownership(self._cluster, self._queue, settings.replica.content, self._clock)
        self._admission = self._admission_server(settings.webhook) if settings.webhook else None
        self._plane: ControlPlane | None = None

    async def run(self) -> None:
        """Be a candidate, and lead when it is our turn, until SIGTERM or SIGINT.

        Raises:
            UsageError: a port is taken.
            GitFailed: git is missing or too old.
            ExceptionGroup: the content volume is unfit (VolumeUnfit), or a part of the process failed in a way that it cannot go on from.
        """
        await check_git()
        checks = self._checks()
        # The API server asks ready replicas alone to review what people write, and that needs the certificate and nothing else.
        readiness = Readiness(checks, self._clock, at_first=checks.keys() - {CERTIFICATE} if self._admission else ())
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._queue.close)
            stack.push_async_callback(self._cluster.close)
            await live([self._stand, self._leave_a_dead_volume], self._faces(readiness), readiness, self._clock)

    async def _stand(self) -> None:
        """Be a candidate again and again; each time is as the first."""
        await self._content.fit()
        while True:
            try:
                await self._leadership.run(self._lead)
            except* LeadershipLost:  # out of the group of `_lead`, too
                pass

    async def _leave_a_dead_volume(self) -> None:
        """End the process when it leads and the content volume hangs: another replica, on another node, may reach it.

        Its own threads wait for the volume and would keep the lead for ever; a process that is started again is no candidate before it has reached it.
        """
        while True:
            await self._content.hung()
            if self._plane is not None:
                raise StorageFailed(
                    "cannot lead: the content volume has not answered for a minute", hint="look at the volume, and at this node's mount"
                )

    async def _lead(self) -> None:
        known = await self._ownership.take()
        by_index = await self._counts_failures_by_index()
        cluster = FencedCluster(self._cluster, self._leadership, self._clock)
        workspaces = Workspaces(self._settings.replica.content, cluster, self._clock)
        repositories = Repositories(ContentVolume(self._settings.replica.content, workspaces.of), self._clock)
        mirrors = Mirrors(repositories, self._clock, addresses=AddressPolicy(self._settings.allowed_networks))
        world = self._world(cluster, repositories, mirrors, by_index=by_index)
        self._plane = ControlPlane(cluster, placed(reconcilers_of(world, self._settings.git_url), workspaces), self._clock)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._plane.run())
                group.create_task(self._sweep(Sweep(cluster, world, self._clock), known=known))
        finally:
            self._plane = None
            mirrors.close()

    async def _sweep(self, sweep: Sweep, *, known: bool) -> None:
        """Sweep as soon as it is known that what would be swept is this cluster's."""
        if not known:
            await self._ownership.know()
        await sweep.run()

    def _world(self, cluster: Cluster, repositories: Repositories, mirrors: Mirrors, *, by_index: bool) -> RunWorld:
        settings = self._settings
        return RunWorld(
            repositories,
            Snapshots(repositories.volume, self._clock),
            mirrors,
            SyncRequests(cluster),
            repositories.volume,
            self._queue,
            image=settings.image,
            installation=settings.installation,
            max_workers=settings.max_workers,
            grants=settings.grants,
            prices=settings.prices,
            users=self._queue.users(settings.worker_redis_url),
            shared_queue=settings.queue_secret,
            pods=ClusterPods(settings.installation, settings.claim, backoff_by_index=by_index),
        )

    async def _counts_failures_by_index(self) -> bool:
        while True:
            try:
                return await self._cluster.version() >= FAILURES_BY_INDEX
            except ClusterError as error:
                log.warning("leader.store_failed", purpose="server.version", error=error.message)
                await self._clock.sleep(RETRY_S)

    def _checks(self) -> dict[str, Check]:
        checks: dict[str, Check] = {
            "api-server": ApiServerAnswers(self._cluster),
            "queue": QueueAnswers(self._queue),
            "content": self._content.look,
            "lease": self._sees_the_lease,
            "ownership": self._owns_its_stores,
            "watches": self._knows_the_store,
        }
        return checks | ({CERTIFICATE: self._has_certificate} if self._admission else {})

    async def _sees_the_lease(self) -> str:
        return self._leadership.trouble

    async def _owns_its_stores(self) -> str:
        return self._ownership.trouble

    async def _knows_the_store(self) -> str:
        """Say what the leader lacks; a standby needs no memory of the store."""
        return "" if self._plane is None or self._plane.informers.is_synced else "not every kind has been listed yet"

    async def _has_certificate(self) -> str:
        return "" if self._admission and self._admission.ready.is_set() else "no certificate is served yet"

    def _faces(self, readiness: Readiness) -> list[Duty]:
        replica, hint = self._settings.replica, "choose another port with --probe-port or --webhook-port"
        probing = listen(replica.host, replica.probe_port, hint=hint)
        faces: list[Duty] = [lambda: serve(Probes(readiness), probing, drain_s=1), self._content.keep]
        if self._admission and self._settings.webhook:
            admission, reviewing = self._admission, listen(replica.host, self._settings.webhook.port, hint=hint)
            faces.append(lambda: admission.run(reviewing))
        return faces

    def _admission_server(self, webhook: Webhook) -> AdmissionServer:
        settings = self._settings
        source: CertificateSource
        if webhook.certificate:
            source = MountedCertificates(webhook.certificate)
        else:
            secret = ObjectKey(settings.namespace, f"{settings.installation}-webhook")
            source = SecretCertificates(self._cluster, secret, [f"{webhook.service}.{settings.namespace}.svc"], self._clock)
        # Not through the fence: a standby answers reviews too, and must be trusted.
        return AdmissionServer(source, Registration(self._cluster, settings.installation), self._clock, BoundedProtocol)
