"""What every step of a run's reconciliation works with: the pass, the world, the run's own names, and how a step ends it all."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from engine.items import RunUID
from engine.permissions import NO_GRANTS, Grants
from engine.plan import Plan
from engine.providers.prices import Price
from engine.queue.port import QueueState, RunUsers, WorkQueue
from foundation.clock import Clock
from foundation.errors import ArenaError
from gitops.content import ContentVolume, ProjectKey
from gitops.repositories import Repositories
from gitops.snapshots import Snapshots
from reconcile.cluster.port import Cluster
from reconcile.kinds.job import ArenaJobSpec
from reconcile.kinds.names import TERMINAL_PHASES
from reconcile.project.port import MirrorPort
from reconcile.project.turns import FetchTurns
from reconcile.runtime.reconciler import Pass
from reconcile.sync_requests import SyncRequests
from reconcile.worker_job import ClusterPods, SecretValue


@dataclass(frozen=True, slots=True)
class RunWorld:
    """What a run touches beyond its own object. `max_workers` caps the workers of one run, None does not.

    `users` makes each run's user of the queue's server, None: nobody does. Where there is none, `shared_queue`, a Secret of the run's namespace, holds
    the address for the workers of all runs; None: whoever starts the workers tells them.
    `pods` is what every run's worker pods get on a cluster; None where workers are processes of this machine.
    `grants`: what the operator lets the bundles of which projects do. `prices`: the operator's, by model, which come before the packaged ones.
    `turns`: how many passes fetch a ref by its name at once; the others go on.
    """

    repositories: Repositories
    snapshots: Snapshots
    mirrors: MirrorPort
    sync_requests: SyncRequests
    volume: ContentVolume
    queue: WorkQueue
    image: str
    installation: str
    max_workers: int | None = None
    grants: Grants = NO_GRANTS
    prices: Mapping[str, Price] = field(default_factory=dict)
    users: RunUsers | None = None
    shared_queue: SecretValue | None = None
    pods: ClusterPods | None = None
    turns: FetchTurns = field(default_factory=lambda: FetchTurns(total=2, per_namespace=1))


class RunRefused(ArenaError):
    """The run fails for good, before or while it works: phase Failed with this reason."""

    def __init__(self, reason: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class RunScope:
    """One pass over one run.

    `plan` and `state` are filled by the steps that read them, and stay None before.
    """

    def __init__(self, scope: Pass, world: RunWorld) -> None:
        self.scope = scope
        self.world = world
        self.plan: Plan | None = None
        self.state: QueueState | None = None

    @property
    def uid(self) -> RunUID:
        """The run's uid, which scopes its keys and outputs."""
        return RunUID(self.scope.uid)

    @property
    def name(self) -> str:
        """The run's name."""
        return self.scope.key.name

    @property
    def namespace(self) -> str:
        """The run's namespace."""
        return self.scope.key.namespace

    @property
    def cluster(self) -> Cluster:
        """The store."""
        return self.scope.cluster

    @property
    def clock(self) -> Clock:
        """The clock."""
        return self.scope.clock

    @property
    def spec(self) -> Mapping[str, Any]:
        """The run's spec."""
        return self.scope.obj["spec"]  # type: ignore[no-any-return]

    @cached_property
    def template(self) -> ArenaJobSpec:
        """The job spec that was frozen when the run was created."""
        return ArenaJobSpec.model_validate(self.spec["template"])

    @property
    def annotations(self) -> Mapping[str, str]:
        """The run's annotations."""
        return self.scope.obj["metadata"].get("annotations") or {}

    @property
    def pods(self) -> ClusterPods | None:
        """What worker pods get; None where workers are processes of this machine."""
        return self.world.pods

    @property
    def job(self) -> str:
        """The name of the job that the run was created from."""
        return str(self.spec["jobRef"]["name"])

    @property
    def status(self) -> dict[str, Any]:
        """The draft status."""
        return self.scope.status

    @property
    def project(self) -> ProjectKey:
        """The project that the run tests; read as it stands, so that a run whose template is invalid can be removed."""
        return ProjectKey(self.namespace, self.spec["template"]["sourceRef"]["name"])

    @property
    def output(self) -> Path:
        """The run's directory on the content volume."""
        return self.world.volume.run(self.namespace, self.name)

    @property
    def terminal(self) -> bool:
        """Whether the run has ended; its phase is final."""
        return self.status.get("phase") in TERMINAL_PHASES

    @property
    def stop(self) -> Mapping[str, str] | None:
        """What the run was told to stop for, if it was: `reason` and `time`."""
        return self.status.get("stop")

    def planned(self) -> Plan:
        """Return the plan, in the steps after the one that reads it."""
        if self.plan is None:
            raise AssertionError("a step asked for the plan before it was made")
        return self.plan

    def counted(self) -> QueueState:
        """Return the queue's state, in the steps after the one that reads it."""
        if self.state is None:
            raise AssertionError("a step asked for the queue's state before it was read")
        return self.state

    @property
    def drained(self) -> bool:
        """Whether every item of the plan is counted; nothing else means it."""
        return self.state is not None and self.plan is not None and self.state.recorded >= len(self.plan.items)
