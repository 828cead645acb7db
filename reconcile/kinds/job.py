"""ArenaJob: a template for runs, and what it says about scheduling."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from reconcile.kinds.conditions import Conditions
from reconcile.kinds.job_load import DataGen, LoadTest
from reconcile.kinds.job_pods import Workers
from reconcile.kinds.quantities import parse_duration
from reconcile.kinds.wire import (
    Count,
    DecimalText,
    Duration,
    Glob,
    LabelName,
    LocalReference,
    ObjectName,
    PathText,
    Positive,
    RefName,
    Resource,
    ShortText,
    StatusModel,
    Timestamp,
    WireModel,
)

DEFAULT_TTL_SECONDS: Final = 3600
DEFAULT_CONFIDENCE: Final = 0.95
MAX_WATCHED: Final = 2000
"""So many branches a job can watch by `onPush.branches`: `status.lastPush` names each of them."""
ARENA_FILE_PATTERN: Final = r"^[^*?\[]+$"

ArenaFile = Annotated[str, Field(max_length=1024, pattern=ARENA_FILE_PATTERN)]
JobType = Literal["evaluation", "loadtest", "datagen"]
ConcurrencyPolicy = Literal["Allow", "Forbid", "Replace"]
Rate = Annotated[float, Field(ge=0, le=1)]
Confidence = Annotated[float, Field(ge=0.5, le=0.9999)]


class Scenarios(WireModel):
    """Which scenarios of the arena file run. Exclusions are applied after inclusions."""

    include: list[Glob] = Field(default_factory=list, max_length=256, description="Globs of scenarios to include; all when empty.")
    exclude: list[Glob] = Field(default_factory=list, max_length=256, description="Globs of scenarios to leave out.")


class EntryReference(WireModel):
    """A Provider or AgentRuntime by name."""

    name: ObjectName
    namespace: ShortText | None = None


class ProviderEntry(WireModel):
    """One entry of a provider group: exactly one of the two references."""

    provider_ref: EntryReference | None = None
    agent_ref: LocalReference | None = None


class S3Output(WireModel):
    """Results in an S3-compatible bucket."""

    bucket: ObjectName = Field(description="Name of the bucket.")
    prefix: PathText | None = Field(None, description="Prefix of the object keys.")
    region: ShortText | None = Field(None, description="Region of the bucket.")
    endpoint: PathText | None = Field(None, description="URL of another S3-compatible service.")
    secret_ref: LocalReference | None = Field(None, description="Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")


class PVCOutput(WireModel):
    """Results on a volume claim."""

    claim_name: ObjectName = Field(description="Name of the claim.")
    sub_path: PathText | None = Field(None, description="Directory within the volume.")


class Output(WireModel):
    """Where results go; without it, to the content volume."""

    type: Literal["s3", "pvc"] = Field(description="Kind of destination.")
    s3: S3Output | None = Field(None, description="Settings of type s3.")
    pvc: PVCOutput | None = Field(None, description="Settings of type pvc.")


class Schedule(WireModel):
    """When runs start by the clock. An empty cron is no schedule."""

    cron: ShortText | None = Field(None, description="Cron expression of five fields.")
    timezone: ShortText = Field("UTC", description="Time zone that the expression is read in.")
    concurrency_policy: ConcurrencyPolicy = Field("Forbid", description="What a tick does while a run is active.")


class OnPush(WireModel):
    """Which pushes start a run."""

    paths: list[Glob] = Field(default_factory=list, max_length=64, description="Globs of changed paths that matter; all when empty. ** crosses /.")
    branches: list[Glob] = Field(default_factory=list, max_length=64, description="Globs of branches that matter; the job's ref when empty.")
    concurrency_policy: ConcurrencyPolicy = Field("Replace", description="What a push does to the active Push runs of its ref.")


class Baseline(WireModel):
    """What a run is compared with: exactly one of ref and run."""

    ref: RefName | None = Field(None, min_length=1, description="The newest finished run of this job at this ref.")
    run: ObjectName | None = Field(None, description="One run by name.")
    fail_on_regression: bool = Field(default=False, description="Whether a regression fails the run.")


class Evaluation(WireModel):
    """When an evaluation passes. Without it every item must pass."""

    min_pass_rate: Rate | None = Field(None, description="From 0 to 1: the lower Wilson bound of the pass rate must reach it.")
    confidence: Confidence = Field(DEFAULT_CONFIDENCE, description="Confidence of the interval.")


class ArenaJobSpec(WireModel):
    """What a run executes. A run carries a frozen copy of it."""

    source_ref: LocalReference = Field(description="The ArenaProject, in the job's namespace.")
    ref: RefName | None = Field(None, description="Branch, tag, full ref name or full SHA; the project's default branch when not set.")
    arena_file: ArenaFile = Field("config.arena.yaml", description="Path of the arena config file in the repository; not a glob.")
    type: JobType = Field("evaluation", description="Kind of work.")
    trials: Positive | None = Field(None, description="Repetitions of each scenario and provider; overrides the scenarios' own.")
    scenarios: Scenarios | None = Field(None, description="Which scenarios run; all when not set.")
    budget_limit: DecimalText | None = Field(None, description="Most that a run may spend, a bare decimal in budgetCurrency.")
    budget_currency: str = Field("USD", pattern=r"^[A-Z]{3}$", max_length=3, description="Currency of budgetLimit.")
    load_test: LoadTest | None = Field(None, description="Settings of type loadtest.")
    data_gen: DataGen | None = Field(None, description="Settings of type datagen.")
    evaluation: Evaluation | None = Field(None, description="When an evaluation passes.")
    workers: Workers = Field(default_factory=Workers, json_schema_extra={"default": {}}, description="The worker pool.")
    providers: dict[str, Any] | None = Field(
        None,
        description="Provider groups: a list of entries (every entry meets every scenario) or a map by the config's provider id. An entry has exactly one of providerRef and agentRef.",
    )
    tool_registries: list[LocalReference] = Field(default_factory=list, max_length=64, description="ToolRegistries whose tools replace the bundle's.")
    output: Output | None = Field(None, description="Where results go.")
    schedule: Schedule | None = Field(None, description="When runs start by the clock.")
    on_push: OnPush | None = Field(None, description="Which pushes start a run.")
    baseline: Baseline | None = Field(None, description="What a run is compared with.")
    reuse: Literal["Never", "Unchanged"] = Field("Never", description="Whether unchanged items take the result of an earlier run.")
    suspend: bool = Field(default=False, description="Stops new runs; those already going are left alone.")
    successful_runs_history_limit: Count = Field(3, description="Finished runs to keep that succeeded.")
    failed_runs_history_limit: Count = Field(1, description="Finished runs to keep that failed or were cancelled.")
    service_group: LabelName | None = Field(None, description="Workspace service group that the runs use.")
    verbose: bool = Field(default=False, description="Debug logging in the workers.")
    session_recording: bool = Field(default=False, description="Whether sessions are recorded in session-api.")
    ttl_seconds_after_finished: Count | None = Field(None, description="How long a finished worker Job is kept; 3600 when not set.")
    item_timeout: Duration = Field("10m", description="Longest that one attempt of an item may take.")
    max_attempts: Positive = Field(3, description="Attempts of an item before it counts as an error.")
    retry_backoff: Duration = Field(
        "1s", description="Wait before the second attempt; doubles with jitter, and honours Retry-After up to ten minutes."
    )
    deadline: Duration | None = Field(None, description="Longest that a run may be Pending or Running.")

    @property
    def confidence(self) -> float:
        """Confidence of every interval of the run, from 0.5 to below 1."""
        return self.evaluation.confidence if self.evaluation else DEFAULT_CONFIDENCE

    @property
    def min_pass_rate(self) -> float | None:
        """Pass rate that the lower bound must reach, from 0 to 1; None when every item must pass."""
        return self.evaluation.min_pass_rate if self.evaluation else None

    @property
    def ttl_seconds(self) -> int:
        """Seconds that a finished worker Job is kept."""
        return DEFAULT_TTL_SECONDS if self.ttl_seconds_after_finished is None else self.ttl_seconds_after_finished

    @property
    def item_timeout_s(self) -> float:
        """Seconds that one attempt of an item may take."""
        return parse_duration(self.item_timeout).total_seconds()

    @property
    def retry_backoff_s(self) -> float:
        """Seconds before the second attempt of an item."""
        return parse_duration(self.retry_backoff).total_seconds()

    @property
    def deadline_after(self) -> timedelta | None:
        """How long a run may be Pending or Running; None for ever."""
        return None if self.deadline is None else parse_duration(self.deadline)

    @property
    def cron(self) -> str:
        """The cron expression, empty when there is no schedule."""
        return (self.schedule.cron or "") if self.schedule else ""


def provider_groups(providers: Mapping[str, Any] | None) -> dict[str, list[ProviderEntry] | dict[str, ProviderEntry]]:
    """Read `spec.providers` once `admission.entry_problems` found nothing wrong with it.

    A list is a pool whose every entry meets every scenario; a map gives the config's provider ids one entry each.

    Raises:
        pydantic.ValidationError: the map was not checked before.
    """
    groups: dict[str, list[ProviderEntry] | dict[str, ProviderEntry]] = {}
    for group, entries in (providers or {}).items():
        if isinstance(entries, Mapping):
            groups[group] = {key: ProviderEntry.model_validate(entry) for key, entry in entries.items()}
        else:
            groups[group] = [ProviderEntry.model_validate(entry) for entry in entries]
    return groups


class RunReference(StatusModel):
    """An ArenaRun of the same namespace."""

    name: ShortText = Field(description="Name of the run.")
    uid: ShortText | None = Field(None, description="UID of the run.")


class LastPush(StatusModel):
    """The commit of a ref that was last compared, and how many runs its pushes made."""

    ref: RefName = Field(description="Full name of the ref.")
    commit: ShortText = Field(description="The commit that was compared last.")
    count: Count = Field(0, description="Runs that pushes to the ref have made.")


class ArenaJobStatus(StatusModel):
    """What the job controller did about scheduling."""

    active: list[RunReference] = Field(default_factory=list, max_length=1024, description="Runs that have not finished.")
    active_count: Count | None = Field(None, description="Number of active runs, for the column.")
    last_run_ref: RunReference | None = Field(None, description="The run created last.")
    last_schedule_time: Timestamp | None = Field(None, description="Last tick that was acted on.")
    next_schedule_time: Timestamp | None = Field(None, description="Next tick; none while suspended.")
    last_push: list[LastPush] = Field(default_factory=list, max_length=MAX_WATCHED, description="Per ref, the commit that was compared last.")
    watched_branches: list[Glob] = Field(
        default_factory=list, max_length=64, description="onPush.branches as of lastPush: what a new glob finds there starts no run."
    )
    last_handled_run: PathText | None = Field(None, description="Last requested-run annotation that was answered.")
    observed_generation: int | None = Field(None, json_schema_extra={"format": "int64"}, description="Generation that this status speaks of.")
    conditions: Conditions = Field(default_factory=list, description="Ready, Reconciling, Stalled.")


class ArenaJob(Resource):
    """ArenaJob is a template for evaluation runs of a project."""

    KIND: ClassVar[str] = "ArenaJob"
    spec: ArenaJobSpec = Field(description="What to run, and when.")
    status: ArenaJobStatus = Field(default_factory=ArenaJobStatus, description="What was scheduled.")
