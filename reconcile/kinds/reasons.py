"""Every reason that a condition or an event of ours may carry, and what it tells its reader.

Each member says who sets it, when, and what the user should do; `member.__doc__` is the three as text, for docs and hints.
Knows no controller: those import their words from here.
"""

from enum import StrEnum
from typing import Self


class Reason(StrEnum):
    """A reason that documents itself: `NAME = (word, set_by, when, remedy)`."""

    _value_: str
    set_by: str
    when: str
    remedy: str

    def __new__(cls, word: str, set_by: str, when: str, remedy: str) -> Self:
        """Make a member whose value is `word`."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.set_by, member.when, member.remedy = set_by, when, remedy
        member.__doc__ = f"Set by {set_by} when {when}. {remedy}"
        return member

    def __str__(self) -> str:
        return self._value_


_PROJECT = "the project controller"
_JOB = "the job controller"
_RUN = "the run controller"
_NOTHING = "Nothing to do."
_SOON = "Nothing to do: it goes on by itself."


class ProjectReason(Reason):
    """Reasons of an ArenaProject's conditions."""

    SUCCEEDED = ("Succeeded", _PROJECT, "the head of the default branch is exported", _NOTHING)
    PROGRESSING = ("Progressing", _PROJECT, "a repository is being made, fetched or exported", _SOON)
    PROGRESSING_WITH_RETRY = (
        "ProgressingWithRetry",
        _PROJECT,
        "a pass failed and is tried again with growing delays",
        "Read the message if it stays.",
    )
    SUSPENDED = ("Suspended", _PROJECT, "spec.suspend is true", "Set spec.suspend to false to go on.")
    INVALID_SPEC = ("InvalidSpec", _PROJECT, "the spec breaks a rule that the store did not check", "Correct the field that the message names.")
    REPOSITORY_EMPTY = ("RepositoryEmpty", _PROJECT, "the hosted repository has no commit", "Push a commit to main, or give a seed.")
    AUTHENTICATION_FAILED = (
        "AuthenticationFailed",
        _PROJECT,
        "the Secret or one of its keys is missing, or the remote refuses the credentials",
        "Correct the Secret that spec.external.secretRef names.",
    )
    REMOTE_UNREACHABLE = (
        "RemoteUnreachable",
        _PROJECT,
        "the remote cannot be reached, or what it sends cannot be taken; the message says which",
        "Check the URL and the network; it is fetched again at the time in status.nextFetchTime.",
    )
    REMOTE_EMPTY = ("RemoteEmpty", _PROJECT, "the remote has no commit", "Push a commit to the remote.")
    REF_NOT_FOUND = (
        "RefNotFound",
        _PROJECT,
        "the default branch does not exist in the repository",
        "Correct spec.external.defaultBranch or push the branch.",
    )
    SNAPSHOT_UNEXPORTABLE = ("SnapshotUnexportable", _PROJECT, "the head cannot be exported", "Correct the path that the message names, then push.")
    STORAGE_FAILED = ("StorageFailed", _PROJECT, "the content volume cannot be read or written", "Make room on the volume, or repair it.")
    SEED_FAILED = (
        "SeedFailed",
        _PROJECT,
        "the seed's ConfigMap or a key is missing, or a file has no safe name",
        "Correct the ConfigMap or spec.hosted.seed.",
    )
    ADOPT_FAILED = (
        "AdoptFailed",
        _PROJECT,
        "the repository that the adopt annotation asks for is not retained, or is of another object format",
        "Correct the annotation, or remove it to begin with an empty repository.",
    )
    NOT_SUPPORTED = ("NotSupported", _PROJECT, "the spec sets a field that is not built yet", "Remove the field that the message names.")
    PROJECT_IN_USE = (
        "ProjectInUse",
        _PROJECT,
        "the project is deleted while pinned runs go on",
        "Wait for the runs that the message names, or cancel them.",
    )


class JobReason(Reason):
    """Reasons of an ArenaJob's conditions."""

    SCHEDULED = ("Scheduled", _JOB, "the job can start runs", _NOTHING)
    SUCCEEDED = ("Succeeded", _JOB, "the last look found nothing to do", _NOTHING)
    PROGRESSING = ("Progressing", _JOB, "a run is being created", _SOON)
    PROGRESSING_WITH_RETRY = ("ProgressingWithRetry", _JOB, "a pass failed and is tried again with growing delays", "Read the message if it stays.")
    SUSPENDED = ("Suspended", _JOB, "spec.suspend is true", "Set spec.suspend to false to start runs again.")
    INVALID_SCHEDULE = ("InvalidSchedule", _JOB, "the cron expression or the time zone cannot be read", "Write five fields and an IANA time zone.")
    INVALID_SPEC = ("InvalidSpec", _JOB, "the spec breaks a rule that the store did not check", "Correct the field that the message names.")
    NOT_SUPPORTED = (
        "NotSupported",
        _JOB,
        "a job with a schedule sets a field that is not built yet, or the schedule itself is not",
        "Remove the field that the message names.",
    )


class RunReason(Reason):
    """Reasons of an ArenaRun's conditions and of its end."""

    SUCCEEDED = ("Succeeded", _RUN, "the run passed", _NOTHING)
    PROGRESSING = ("Progressing", _RUN, "the run is being prepared or executed", _SOON)
    PROGRESSING_WITH_RETRY = ("ProgressingWithRetry", _RUN, "a pass failed and is tried again with growing delays", "Read the message if it stays.")
    PINNED = ("Pinned", _RUN, "the run's commit, or its queue, is fixed", _NOTHING)
    JOB_CREATED = ("JobCreated", _RUN, "the worker Job exists", _NOTHING)
    WORKERS_RUNNING = ("WorkersRunning", _RUN, "workers are leasing items", _SOON)
    SETTLING = ("Settling", _RUN, "every item has its record and the results are being written", _SOON)
    COMPLETED = ("Completed", _RUN, "the workers have nothing left to do", _NOTHING)
    PROJECT_NOT_READY = (
        "ProjectNotReady",
        _RUN,
        "the project does not exist or is not Ready; the run waits, Pending",
        "Create the project, push a commit, or read the project's Ready message.",
    )
    INVALID_SPEC = (
        "InvalidSpec",
        _RUN,
        "the template breaks a rule that the store did not check",
        "Correct the field in the job and start another run.",
    )
    INVALID_PROVIDER_ENTRY = (
        "InvalidProviderEntry",
        _RUN,
        "a provider entry sets both or neither of providerRef and agentRef",
        "Correct the entry that the message names.",
    )
    NOT_SUPPORTED = (
        "NotSupported",
        _RUN,
        "the template, the workspace or the bundle asks for what is not built yet",
        "Remove what the message names.",
    )
    REF_NOT_FOUND = (
        "RefNotFound",
        _RUN,
        "template.ref names nothing in the repository",
        "Name a branch, a tag, a full ref or a full SHA that exists.",
    )
    SNAPSHOT_UNEXPORTABLE = ("SnapshotUnexportable", _RUN, "the commit cannot be exported", "Correct the path that the message names, then push.")
    STORAGE_FAILED = ("StorageFailed", _RUN, "the content volume cannot be read or written", "Make room on the volume, or repair it.")
    ARENA_FILE_NOT_FOUND = ("ArenaFileNotFound", _RUN, "the commit has no file of the name arenaFile", "Correct spec.arenaFile or push the file.")
    BUNDLE_INVALID = (
        "BundleInvalid",
        _RUN,
        "a file of the bundle cannot be read as what it must be",
        "Correct the line that the message names; `arena validate` finds it too.",
    )
    NO_SCENARIOS = ("NoScenarios", _RUN, "the filters leave no scenario", "Correct spec.scenarios.")
    PROVIDER_NOT_FOUND = (
        "ProviderNotFound",
        _RUN,
        "the bundle or the job names a provider that does not exist",
        "Create the provider or correct its name.",
    )
    CREDENTIAL_MISSING = (
        "CredentialMissing",
        _RUN,
        "a provider's key is not in the workers' environment",
        "Give workers the variable that the message names: a Provider with a secretRef, podOverrides.extraEnv, or `arena up --worker-env`.",
    )
    TOOL_REGISTRY_NOT_FOUND = (
        "ToolRegistryNotFound",
        _RUN,
        "spec.toolRegistries names a ToolRegistry that does not exist",
        "Create the registry or correct its name.",
    )
    MATRIX_TOO_LARGE = ("MatrixTooLarge", _RUN, "scenarios x providers x trials exceed the item cap", "Lower trials, or narrow spec.scenarios.")
    JOB_CREATION_FAILED = (
        "JobCreationFailed",
        _RUN,
        "the worker Job cannot be made; it is tried again",
        "Read the message: a Provider of another namespace, a Secret or a key of it that is missing, or a service group that cannot be used.",
    )
    SERVICE_GROUP_AMBIGUOUS = (
        "ServiceGroupAmbiguous",
        _RUN,
        "the workspace has several service groups and the job names none",
        "Set spec.serviceGroup.",
    )
    SERVICE_GROUP_NOT_FOUND = (
        "ServiceGroupNotFound",
        _RUN,
        "the workspace does not have the service group that the job names",
        "Correct spec.serviceGroup.",
    )
    TESTS_FAILED = (
        "TestsFailed",
        _RUN,
        "items failed, a threshold was missed, or the pass rate is too low",
        "Read the failed items: `arena show RUN --failed`.",
    )
    BUDGET_EXCEEDED = ("BudgetExceeded", _RUN, "the run's spend crossed budgetLimit", "Raise spec.budgetLimit or make the run smaller.")
    DEADLINE_EXCEEDED = ("DeadlineExceeded", _RUN, "the run was Pending or Running longer than spec.deadline", "Raise spec.deadline or add workers.")
    WORKERS_FAILED = (
        "WorkersFailed",
        _RUN,
        "the worker Job failed for good with items left, or the plan is of another release, whose workers cannot be had or which cannot be read here",
        "Read the workers' logs: `arena logs RUN`. After an upgrade, start another run.",
    )
    QUEUE_LOST = (
        "QueueLost",
        _RUN,
        "the queue's store lost the run and there is no volume to rebuild it from",
        "Start another run; make the store append-only and noeviction.",
    )
    QUEUE_UNAVAILABLE = ("QueueUnavailable", _RUN, "the queue's store does not answer; it is tried again", "Bring the store back.")
    CANCELLED = ("Cancelled", _RUN, "spec.cancelled was set, or a newer run replaced this one", _NOTHING)
    DELETING = ("Deleting", _RUN, "the run is deleted and its workers, keys and directory are being removed", _SOON)
    WAITING_FOR_WORKSPACE_QUOTA = ("WaitingForWorkspaceQuota", _RUN, "the workspace's quota has not admitted the run", _SOON)


class QuotaReason(Reason):
    """Reasons of an ArenaRun's WithinWorkspaceQuota."""

    SATISFIED = ("QuotaSatisfied", _RUN, "the run is admitted", _NOTHING)
    WAITING_FOR_CONCURRENT_RUN_SLOT = (
        "WaitingForConcurrentRunSlot",
        _RUN,
        "maxConcurrentJobs runs are running",
        "Wait, or raise the workspace's maxConcurrentJobs.",
    )
    WAITING_FOR_DAILY_RUN_QUOTA = (
        "WaitingForDailyRunQuota",
        _RUN,
        "maxJobsPerDay runs were admitted in the last 24 hours",
        "Wait until the time in the message, or raise maxJobsPerDay.",
    )
    WAITING_FOR_QUOTA_ADMISSION = ("WaitingForQuotaAdmission", _RUN, "the quota has not counted the run yet", _SOON)
    ADMISSION_RELEASED = (
        "AdmissionReleased",
        _RUN,
        "the run was admitted but did not start its workers within 15 minutes and gave its slot back",
        "Read the run's other conditions.",
    )
    WORKERS_CLAMPED = (
        "WorkersClamped",
        _RUN,
        "the run asks for more workers than maxWorkersPerJob and runs at the cap",
        "Nothing to do, or raise the workspace's maxWorkersPerJob.",
    )


class RunDetailReason(Reason):
    """Reasons of an ArenaRun's QueueRedisDrifted and OutputPersisted."""

    SERVICE_GROUP_REDIS_CHANGED = (
        "ServiceGroupRedisChanged",
        _RUN,
        "the service group's redis differs from the one the run is pinned to",
        "Nothing to do: the run keeps its queue.",
    )
    OUTPUT_UPLOADED = ("OutputUploaded", _RUN, "every worker uploaded its output", _NOTHING)
    OUTPUT_UPLOAD_FAILED = (
        "OutputUploadFailed",
        _RUN,
        "a worker could not upload its output",
        "Check the bucket and the credentials; the verdict stands.",
    )
    OUTPUT_LOST = ("OutputLost", _RUN, "the run was settled without files", "Repair the content volume; the verdict stands.")


class NeighbourReason(Reason):
    """Reasons in local mode of the conditions of Provider, AgentRuntime, ToolRegistry and Workspace."""

    READY = ("Ready", "a local controller", "the object can be used", _NOTHING)
    CREDENTIAL_FOUND = ("CredentialFound", "the provider controller", "the Secret has the key", _NOTHING)
    CREDENTIAL_NOT_REQUIRED = ("CredentialNotRequired", "the provider controller", "the provider needs no credential", _NOTHING)
    CREDENTIAL_OF_WORKERS = (
        "CredentialOfWorkers",
        "the provider controller",
        "the key is in no Secret that the provider names, but in the environment of workers, which is looked at when a run starts",
        "Nothing to do, or name a Secret in spec.credential.secretRef.",
    )
    PROVIDER_UNREADABLE = ("ProviderUnreadable", "the provider controller", "a field of the spec cannot be used", "Correct the field.")
    SECRET_NOT_FOUND = ("SecretNotFound", "the provider controller", "the Secret does not exist", "Create the Secret that the message names.")
    SECRET_KEY_NOT_FOUND = ("SecretKeyNotFound", "the provider controller", "the Secret lacks the key", "Add the key that the message names.")
    ENDPOINT_NOT_CHECKED = ("EndpointNotChecked", "the provider controller", "the endpoint has not been asked", _NOTHING)
    ENDPOINT_GIVEN = ("EndpointGiven", "the agent controller", "spec.endpoint is set", _NOTHING)
    ENDPOINT_MISSING = ("EndpointMissing", "the agent controller", "nothing deploys the agent and spec.endpoint is not set", "Set spec.endpoint.")
    TOOLS_DISCOVERED = ("ToolsDiscovered", "the tool registry controller", "the handlers are listed as tools", _NOTHING)


class EventReason(Reason):
    """Reasons of events that are no condition's reason."""

    RUN_CREATED = ("RunCreated", _JOB, "a run was created", _NOTHING)
    RUN_SKIPPED = (
        "RunSkipped",
        _JOB,
        "a tick started no run, because one is active or the day's allowance is used up",
        "Nothing to do, or change concurrencyPolicy.",
    )
    RUN_REPLACED = ("RunReplaced", _JOB, "an active run was cancelled for a newer one", _NOTHING)
    PUSH_SUPERSEDED = ("PushSuperseded", _JOB, "a commit got no run, because a newer one came before it", _NOTHING)
    SUSPENDED = ("Suspended", _JOB, "the job stopped starting runs", "Set spec.suspend to false to start runs again.")
    ADOPTED = ("Adopted", _PROJECT, "a retained repository became the project's", _NOTHING)
    ADOPT_REFUSED = (
        "AdoptRefused",
        _PROJECT,
        "a retained repository was asked for, and the project has commits of its own",
        "Delete the project, which retains its repository, and create it again with the annotation.",
    )
    SEEDED = ("Seeded", _PROJECT, "the first commit was made", _NOTHING)
    MIRRORED = ("Mirrored", _PROJECT, "a remote was fetched for the first time", _NOTHING)
    REFS_CHANGED = (
        "RefsChanged",
        _PROJECT,
        "a fetch found branches that were made, forced, deleted or renamed, a default branch that moved, or tags that did",
        "Nothing to do: the mirror has followed, and runs keep the commits that they pinned.",
    )
    REFS_SKIPPED = ("RefsSkipped", _PROJECT, "the remote has refs whose names no mirror can hold", "Rename the refs that the message names.")
    REMOTE_REPLACED = (
        "RemoteReplaced",
        _PROJECT,
        "spec.external.url names another remote, so the mirror of the old one was removed",
        _NOTHING,
    )
    WEBHOOK_REFUSED = (
        "WebhookRefused",
        "the webhook receiver",
        "a delivery came, and the project's webhook secret is missing, or the delivery was about another repository than the project's",
        "Do what the message says, then let `arena hooks test` send a sample.",
    )
    STALE_SOURCE = (
        "StaleSource",
        _RUN,
        "the remote could not be fetched and the mirror answered",
        "Check the remote: the commit may not be its newest.",
    )
    AMBIGUOUS_REF = ("AmbiguousRef", _RUN, "a name is that of two refs, such as a branch and a tag", "Write the full ref name.")
    LFS_POINTER = (
        "LFSPointer",
        "the project and the run controller",
        "a snapshot holds Git LFS pointers as they are",
        "Commit the file itself if the run reads it.",
    )
    BUNDLE_WARNING = ("BundleWarning", _RUN, "a file of the bundle sets what has no effect", "Remove it, or read what `arena validate` says of it.")
    QUEUE_REBUILT = ("QueueRebuilt", _RUN, "the queue's store had lost items, and they were put again", "Make the store append-only and noeviction.")
    QUEUE_UNSAFE = (
        "QueueUnsafe",
        _RUN,
        "the queue's store may evict keys or does not log its writes",
        "Set maxmemory-policy noeviction and appendonly yes.",
    )
    QUEUE_SHARED = (
        "QueueShared",
        _RUN,
        "the queue's store makes no user for each run, or lets anybody in, so the run's workers could reach the queues of others",
        "Let the control plane's user of the store give ACL SETUSER, DELUSER and USERS, and give the user 'default' a password.",
    )
    WORKERS_RESTARTED = (
        "WorkersRestarted",
        _RUN,
        "the worker Job ended with items left, so it is made again",
        "Read the workers' logs if it repeats.",
    )
    OUTPUT_LOST = ("OutputLost", _RUN, "the run was settled without files", "Repair the content volume; the verdict stands.")
    CORPUS_NOT_RECORDED = (
        "CorpusNotRecorded",
        _RUN,
        "a datagen run has no session-api to record into",
        "The export is written; give the workspace a session-api.",
    )
    THRESHOLD_UNAVAILABLE = ("ThresholdUnavailable", _RUN, "a threshold's metric was not measured", "Set loadTest.unmeasured to Fail to gate on it.")
    FIELD_IGNORED = (
        "FieldIgnored",
        _RUN,
        "the job, or an object that it names, sets a field that has no effect in this run",
        "Remove the field, or read in the message what takes its place.",
    )
    WORKERS_REDUCED = ("WorkersReduced", _RUN, "the run asks for more workers than may run here", _NOTHING)


REASONS: tuple[type[Reason], ...] = (ProjectReason, JobReason, RunReason, QuotaReason, RunDetailReason, NeighbourReason, EventReason)
"""Every enum of reasons, for documentation."""
