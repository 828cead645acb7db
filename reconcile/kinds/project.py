"""ArenaProject: a git repository of evaluation bundles, hosted here or mirrored from an https remote."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from reconcile.kinds.conditions import Conditions
from reconcile.kinds.quantities import QUANTITY_PATTERN, parse_quantity
from reconcile.kinds.wire import (
    ByteCount,
    Count,
    Duration,
    Glob,
    LocalReference,
    ObjectName,
    PathText,
    Positive,
    RefName,
    Resource,
    SecretKey,
    SecretKeyReference,
    ShortText,
    StatusModel,
    Timestamp,
    WireModel,
)

GitHost = Literal["github", "gitlab", "gitea", "bitbucket", "bitbucket-server", "azure-devops", "generic"]
Quantity = Annotated[
    int | str,
    Field(json_schema_extra={"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN, "maxLength": 20}),
]


class SeedItem(WireModel):
    """One key of the ConfigMap and the file it becomes."""

    key: SecretKey = Field(description="Key within the ConfigMap.")
    path: PathText = Field(min_length=1, description="Path of the file in the repository, relative to its root.")


class SeedConfigMap(WireModel):
    """The ConfigMap that holds the first commit's files."""

    name: ObjectName = Field(description="Name of the ConfigMap, in the project's namespace.")
    items: list[SeedItem] = Field(
        default_factory=list,
        max_length=256,
        description='Which keys become which files. Without items every key is a file, and "__" in a key is "/".',
    )


class Seed(WireModel):
    """What the first commit of a hosted repository holds. Used once; later changes do nothing."""

    config_map: SeedConfigMap = Field(description="The ConfigMap with the files.")


class Hosted(WireModel):
    """A repository on the content volume, served for clone, fetch and push."""

    object_format: Literal["sha1", "sha256"] = Field("sha1", description="Hash of the repository's objects. Cannot be changed.")
    reclaim_policy: Literal["Retain", "Delete"] = Field("Retain", description="What becomes of the repository when the project is deleted.")
    seed: Seed | None = Field(None, description="First commit, made once if the repository has none.")


class Webhook(WireModel):
    """Which git host may ask for an immediate fetch."""

    host: GitHost = Field(description="Kind of git host: decides how a delivery is verified.")
    secret_ref: SecretKeyReference = Field(description="Secret that deliveries are signed with.")


class CommitStatus(WireModel):
    """Posts the verdict of a run on the commit that it ran."""

    secret_ref: SecretKeyReference = Field(description="Token for the git host's API.")


class External(WireModel):
    """An https git remote that Arena mirrors."""

    url: str = Field(min_length=1, max_length=2048, description="https URL of the remote, without credentials.")
    secret_ref: LocalReference | None = Field(None, description="Secret with username and password, or token; optional ca.crt.")
    poll_interval: Duration = Field("5m", description="How often the remote is fetched; 10s at least.")
    default_branch: RefName | None = Field(None, description="Branch that stands for the project; the remote's HEAD when not set.")
    webhook: Webhook | None = Field(None, description="Who may ask for an immediate fetch.")
    commit_status: CommitStatus | None = Field(None, description="Where verdicts are posted.")


class Deploy(WireModel):
    """What may be deployed by Try it. Never limits runs."""

    allowed_refs: list[Glob] = Field(default_factory=list, max_length=64, description="Globs of refs; the default branch and tags when empty.")


class SnapshotPolicy(WireModel):
    """Limits and retention of exported commits."""

    max_files: Positive = Field(20_000, description="Most files that a commit may have to be exported.")
    max_size: Quantity = Field("512Mi", description="Most bytes that a commit may have to be exported.")
    retain: Count = Field(20, description="Newest unused snapshots to keep; one that a run needs is never removed.")

    @property
    def max_bytes(self) -> int:
        """`maxSize` in bytes."""
        return parse_quantity(self.max_size)


class ArenaProjectSpec(WireModel):
    """Where the project's commits come from: exactly one of hosted and external."""

    hosted: Hosted | None = Field(None, description="A repository that Arena hosts.")
    external: External | None = Field(None, description="An https remote that Arena mirrors.")
    deploy: Deploy | None = Field(None, description="What Try it may deploy.")
    snapshots: SnapshotPolicy = Field(
        default_factory=SnapshotPolicy, json_schema_extra={"default": {}}, description="Limits and retention of snapshots."
    )
    suspend: bool = Field(default=False, description="Stops fetches and exports of the head; runs already pinned go on.")

    @property
    def repository_kind(self) -> Literal["hosted", "external"]:
        """Which of the two this project is."""
        return "external" if self.external is not None else "hosted"


class ProjectHead(StatusModel):
    """The default branch's tip as exported."""

    commit: ShortText | None = Field(None, description="Full SHA.")
    ref: RefName | None = Field(None, description="Full name of the default branch.")
    content_path: PathText | None = Field(None, description="The snapshot, relative to the namespace's content subtree.")
    author: PathText | None = Field(None, description="Author of the commit.")
    message: PathText | None = Field(None, description="First line of the commit's message.")
    time: Timestamp | None = Field(None, description="Commit time.")


class NamedRef(StatusModel):
    """A branch or tag and its commit."""

    name: RefName = Field(description="Full name of the ref.")
    commit: ShortText = Field(description="Its commit; a tag's is peeled.")


class ProjectRefs(StatusModel):
    """How many refs there are, and the 50 newest."""

    branches: Count = Field(0, description="Number of branches.")
    tags: Count = Field(0, description="Number of tags.")
    newest: list[NamedRef] = Field(default_factory=list, max_length=50, description="The 50 newest.")


class ProjectSnapshots(StatusModel):
    """What the exported commits take."""

    count: Count = Field(0, description="Number of snapshots.")
    bytes: ByteCount = Field(0, description="Bytes on the volume; a file that snapshots share counts once.")


class FetchFailure(StatusModel):
    """The fetches that failed since the last good one."""

    count: Count = Field(description="How many failed in a row.")
    time: Timestamp = Field(description="When the last of them began.")


class ProjectDisplay(StatusModel):
    """What the columns show."""

    kind: ShortText | None = Field(None, description="hosted or external.")
    head: ShortText | None = Field(None, description="First 12 characters of the head's commit.")


class ArenaProjectStatus(StatusModel):
    """What the project controller last saw."""

    repository_url: str | None = Field(
        None, alias="repositoryURL", max_length=2048, description="Clone URL of a hosted repository; of an external one, the remote that is mirrored."
    )
    default_branch: RefName | None = Field(None, description="The branch that stands for the project.")
    head: ProjectHead | None = Field(None, description="The default branch's tip.")
    last_fetch_time: Timestamp | None = Field(None, description="When the last good look at the repository began.")
    next_fetch_time: Timestamp | None = Field(None, description="When the remote is fetched next.")
    fetch_failure: FetchFailure | None = Field(None, description="The fetches that failed since lastFetchTime; absent when the last one was good.")
    credentials_version: ShortText | None = Field(None, description="resourceVersion of the Secret that the last fetch used.")
    last_handled_sync: PathText | None = Field(None, description="Last requested-sync annotation that was answered.")
    last_handled_adopt: PathText | None = Field(None, description="Last adopt annotation that was answered.")
    refs: ProjectRefs | None = Field(None, description="Branches and tags.")
    snapshots: ProjectSnapshots | None = Field(None, description="Exported commits.")
    display: ProjectDisplay | None = Field(None, description="What the columns show.")
    observed_generation: int | None = Field(None, json_schema_extra={"format": "int64"}, description="Generation that this status speaks of.")
    conditions: Conditions = Field(default_factory=list, description="Ready, Reconciling, Stalled, FetchFailed.")


class ArenaProject(Resource):
    """ArenaProject is a git repository of evaluation bundles."""

    KIND: ClassVar[str] = "ArenaProject"
    spec: ArenaProjectSpec = Field(description="Where the commits come from.")
    status: ArenaProjectStatus = Field(default_factory=ArenaProjectStatus, description="What the controller last saw.")
