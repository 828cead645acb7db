"""Workspace: a tenant's namespace, its services and quotas; cluster-scoped. A neighbour: another product may own the kind."""

from typing import Annotated, ClassVar

from pydantic import Field

from reconcile.kinds.conditions import Conditions
from reconcile.kinds.wire import (
    Count,
    LabelName,
    ObjectName,
    OpenModel,
    PathText,
    Positive,
    Resource,
    SecretKeyReference,
    ShortText,
    StatusModel,
    WireModel,
)

Port = Annotated[int, Field(ge=1, le=65535, json_schema_extra={"format": "int32"})]
RedisDatabase = Annotated[int, Field(ge=0, le=15, json_schema_extra={"format": "int32"})]
DEFAULT_REDIS_PORT = 6379


class WorkspaceNamespace(WireModel):
    """The namespace that belongs to the workspace."""

    name: LabelName = Field(min_length=1, description="Name of the namespace.")


class RedisService(WireModel):
    """A Redis behind a Service."""

    name: ObjectName = Field(description="Name of the Service.")
    namespace: ShortText | None = Field(None, description="Namespace of the Service; the workspace's when not set.")
    port: Port | None = Field(None, description="Port of the Service; 6379 when not set.")


class Redis(WireModel):
    """The Redis of a service group: exactly one of existingSecret, url, host and serviceRef."""

    existing_secret: SecretKeyReference | None = Field(None, description="Secret that holds the URL.")
    url: str | None = Field(None, max_length=2048, pattern=r"^rediss?://[^\s]+$", description="URL, redis:// or rediss://.")
    host: ShortText | None = Field(None, min_length=1, description="Host name.")
    port: Port | None = Field(None, description="Port of the host; 6379 when not set.")
    db: RedisDatabase | None = Field(None, description="Database, 0 to 15.")
    user: ShortText | None = Field(None, description="User name.")
    service_ref: RedisService | None = Field(None, description="A Service.")


class ExternalServices(WireModel):
    """Services outside the cluster."""

    session_url: PathText | None = Field(None, alias="sessionURL", description="URL of session-api.")


class ServiceGroup(WireModel):
    """A named set of services that jobs choose by `serviceGroup`."""

    name: LabelName = Field(min_length=1, description="Name of the group, unique in the workspace.")
    redis: Redis | None = Field(None, description="Where the group's runs queue.")
    external: ExternalServices | None = Field(None, description="Services outside the cluster.")


class ArenaQuota(WireModel):
    """How much the workspace's runs may take."""

    max_concurrent_jobs: Count | None = Field(None, description="Most runs at once.")
    max_jobs_per_day: Count | None = Field(None, description="Most runs started within 24 hours.")
    max_workers_per_job: Positive | None = Field(None, description="Most workers of a run.")


class Quotas(WireModel):
    """Limits by product."""

    arena: ArenaQuota | None = Field(None, description="Limits of Arena's runs.")


class WorkspaceSpec(OpenModel):
    """A tenant's namespace, services and quotas."""

    namespace: WorkspaceNamespace = Field(description="The namespace that belongs to the workspace.")
    services: list[ServiceGroup] = Field(
        default_factory=list,
        max_length=64,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        description="Service groups.",
    )
    quotas: Quotas | None = Field(None, description="Limits.")


class ServiceStatus(StatusModel):
    """Whether a service group can be used."""

    name: ShortText = Field(description="Name of the group.")
    session_url: PathText | None = Field(None, alias="sessionURL", description="URL of session-api.")
    ready: bool | None = Field(None, description="Whether the group can be used.")


class WorkspaceStatus(StatusModel):
    """What became of the workspace."""

    phase: ShortText | None = Field(None, description="Pending, Ready or Error.")
    services: list[ServiceStatus] = Field(default_factory=list, max_length=64, description="Service groups.")
    observed_generation: int | None = Field(None, json_schema_extra={"format": "int64"}, description="Generation that this status speaks of.")
    conditions: Conditions = Field(default_factory=list, description="Ready.")


class Workspace(Resource):
    """Workspace is a tenant's namespace, services and quotas."""

    KIND: ClassVar[str] = "Workspace"
    spec: WorkspaceSpec = Field(description="Namespace, services and quotas.")
    status: WorkspaceStatus = Field(default_factory=WorkspaceStatus, description="What became of it.")
