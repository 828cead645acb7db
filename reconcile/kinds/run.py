"""ArenaRun: one execution of a job's frozen spec, pinned to a commit."""

from typing import ClassVar, Literal

from pydantic import Field

from reconcile.kinds.conditions import Conditions
from reconcile.kinds.job import ArenaJobSpec
from reconcile.kinds.names import TERMINAL_PHASES
from reconcile.kinds.wire import (
    Count,
    LocalReference,
    LongText,
    PathText,
    RefName,
    Resource,
    SecretKeyReference,
    ShortText,
    StatusModel,
    Timestamp,
    WireModel,
)

Phase = Literal["Pending", "Running", "Succeeded", "Failed", "Cancelled"]
Trigger = Literal["Manual", "Schedule", "Push"]


class ArenaRunSpec(WireModel):
    """What was asked for. Nothing but `cancelled` changes."""

    job_ref: LocalReference = Field(description="The ArenaJob that this run was created from.")
    trigger: Trigger = Field("Manual", description="What started the run.")
    template: ArenaJobSpec = Field(description="The job's spec, frozen when the run was created.")
    cancelled: bool = Field(default=False, description="Stops the run; no effect once it has finished.")


class RunSource(StatusModel):
    """The commit that the run executes. Set once."""

    repository: str | None = Field(None, max_length=2048, description="URL of an external project, `hosted` for a hosted one.")
    ref: RefName | None = Field(None, description="The ref that the run asked for.")
    commit: ShortText | None = Field(None, description="The SHA that the ref resolved to.")
    content_path: PathText | None = Field(None, description="The snapshot, relative to the namespace's content subtree.")


class RunQueue(StatusModel):
    """The Redis that the run's queue lives on. Set once."""

    source: Literal["ServiceGroup", "Default"] = Field(description="Where the Redis comes from.")
    service_group: ShortText | None = Field(None, description="Service group that the run resolved to.")
    secret_ref: SecretKeyReference | None = Field(None, description="Secret with the Redis URL, for ServiceGroup only.")
    config_hash: ShortText | None = Field(None, description="Fingerprint of the group's redis when the run started.")


class RunPlan(StatusModel):
    """What was planned. Set once."""

    digest: ShortText | None = Field(None, description="sha256 of the plan file.")
    items: Count | None = Field(None, description="Number of work items.")
    scenarios: Count | None = Field(None, description="Number of scenarios.")
    providers: Count | None = Field(None, description="Number of providers under test.")
    trials: Count | None = Field(None, description="Most repetitions of a scenario and provider.")


class RunStop(StatusModel):
    """Why and when the run was stopped before its end."""

    reason: ShortText | None = Field(None, description="Reason of the stop.")
    time: Timestamp | None = Field(None, description="When the stop was decided.")
    message: LongText | None = Field(None, description="Why, in words, where the reason alone does not say.")


class RunProgress(StatusModel):
    """A display copy of the queue's counters; decides nothing."""

    total: Count | None = Field(None, description="Number of work items.")
    completed: Count | None = Field(None, description="Items that passed.")
    failed: Count | None = Field(None, description="Items that failed or could not be run.")
    pending: Count | None = Field(None, description="Items without a result.")


class RunResult(StatusModel):
    """The headline result."""

    summary: dict[str, str] = Field(default_factory=dict, max_length=256, description="Aggregated metrics; every value is a string.")


class RunDisplay(StatusModel):
    """What the columns show."""

    commit: ShortText | None = Field(None, description="First 12 characters of the commit.")
    progress: ShortText | None = Field(None, description="Such as 37/40, 1 failed.")
    cost: ShortText | None = Field(
        None, description="What was spent so far, such as $0.4213, or the least that was; absent while nothing has a price."
    )


class ArenaRunStatus(StatusModel):
    """How far the run is, and what came of it."""

    phase: Phase | None = Field(None, description="Where the run stands; Succeeded, Failed and Cancelled are final.")
    fetch_request: PathText | None = Field(None, description="The requested-sync that the run asked its project with, before it resolved its ref.")
    fetch_request_time: Timestamp | None = Field(None, description="When it asked: a fetch that began later answers, too.")
    source: RunSource | None = Field(None, description="The commit that the run executes.")
    snapshot_digest: ShortText | None = Field(None, description="Digest of the snapshot's manifest.")
    queue: RunQueue | None = Field(None, description="The Redis that the run's queue lives on.")
    plan: RunPlan | None = Field(None, description="What was planned.")
    workers: Count | None = Field(None, description="Workers that the Job was created with. Set once.")
    active_workers: Count | None = Field(None, description="Workers that are running now.")
    stop: RunStop | None = Field(None, description="Why the run was stopped.")
    progress: RunProgress | None = Field(None, description="Counters.")
    result: RunResult | None = Field(None, description="The headline result.")
    output_path: PathText | None = Field(None, description="The run's directory, relative to the namespace's content subtree.")
    reused: Count | None = Field(None, description="Items whose result an earlier run gave.")
    start_time: Timestamp | None = Field(None, description="When the run started.")
    completion_time: Timestamp | None = Field(None, description="When the run ended.")
    tidied: bool | None = Field(None, description="Whether the ended run's queue is gone too: nothing is left to do for the run.")
    display: RunDisplay | None = Field(None, description="What the columns show.")
    observed_generation: int | None = Field(None, json_schema_extra={"format": "int64"}, description="Generation that this status speaks of.")
    conditions: Conditions = Field(default_factory=list, description="Ready, SourceValid, JobCreated, Progressing and others.")

    @property
    def is_terminal(self) -> bool:
        """Whether the run has ended; such a phase is final."""
        return self.phase in TERMINAL_PHASES


class ArenaRun(Resource):
    """ArenaRun is one execution of an ArenaJob."""

    KIND: ClassVar[str] = "ArenaRun"
    spec: ArenaRunSpec = Field(description="What was asked for.")
    status: ArenaRunStatus = Field(default_factory=ArenaRunStatus, description="How far the run is.")
