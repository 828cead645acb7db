"""ArenaJob settings of the worker pool: replicas, concurrency, and what is laid over the worker pods."""

from typing import Any, Literal

from pydantic import Field

from reconcile.kinds.wire import LocalReference, LongText, ObjectName, OpenModel, PathText, Positive, ShortText, WireModel


class Toleration(WireModel):
    """A taint that worker pods put up with."""

    key: ShortText | None = Field(None, description="Key of the taint; all keys when empty and the operator is Exists.")
    operator: Literal["Exists", "Equal"] | None = Field(None, description="How value is compared; Equal when not set.")
    value: ShortText | None = Field(None, description="Value of the taint.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(None, description="Effect of the taint; all when empty.")
    toleration_seconds: int | None = Field(None, json_schema_extra={"format": "int64"}, description="How long a NoExecute taint is put up with.")


class EnvVar(WireModel):
    """One environment variable of the worker."""

    name: ObjectName = Field(description="Name of the variable.")
    value: LongText | None = Field(None, description="Value as written.")
    value_from: dict[str, Any] | None = Field(None, description="Source of the value, as in a pod.")


class EnvSource(WireModel):
    """A Secret or ConfigMap by name."""

    name: ObjectName = Field(description="Name of the object.")
    optional: bool | None = Field(None, description="Whether it may be absent.")


class EnvFrom(WireModel):
    """A Secret or ConfigMap whose keys become environment variables."""

    prefix: ShortText | None = Field(None, description="Put before each key.")
    secret_ref: EnvSource | None = Field(None, description="The Secret.")
    config_map_ref: EnvSource | None = Field(None, description="The ConfigMap.")


class Volume(OpenModel):
    """A volume of the pod; its source is written as in a pod."""

    name: ObjectName = Field(description="Name that mounts refer to.")


class VolumeMount(WireModel):
    """Where a volume appears in the worker."""

    name: ObjectName = Field(description="Name of the volume.")
    mount_path: PathText = Field(min_length=1, description="Path in the container.")
    sub_path: PathText | None = Field(None, description="Path in the volume.")
    sub_path_expr: PathText | None = Field(None, description="Path in the volume with variables.")
    read_only: bool | None = Field(None, description="Whether the mount is read-only.")
    mount_propagation: ShortText | None = Field(None, description="As in a pod.")


class PodOverrides(WireModel):
    """What is laid over the worker pods. Our labels win; these annotations win."""

    service_account_name: ShortText | None = Field(None, description="ServiceAccount of the pods.")
    labels: dict[str, ShortText] = Field(default_factory=dict, max_length=64, description="Labels of the pods; Arena's own win.")
    annotations: dict[str, LongText] = Field(default_factory=dict, max_length=64, description="Annotations of the pods; these win.")
    node_selector: dict[str, ShortText] = Field(default_factory=dict, max_length=64, description="Labels that a node must have.")
    tolerations: list[Toleration] = Field(default_factory=list, max_length=64, description="Taints that the pods put up with.")
    priority_class_name: ShortText | None = Field(None, description="PriorityClass of the pods.")
    image_pull_secrets: list[LocalReference] = Field(default_factory=list, max_length=32, description="Secrets to pull images with.")
    extra_env: list[EnvVar] = Field(default_factory=list, max_length=128, description="More environment variables.")
    extra_env_from: list[EnvFrom] = Field(default_factory=list, max_length=64, description="More sources of environment variables.")
    extra_volumes: list[Volume] = Field(default_factory=list, max_length=64, description="More volumes.")
    extra_volume_mounts: list[VolumeMount] = Field(default_factory=list, max_length=64, description="More mounts.")


class Workers(WireModel):
    """The worker pool of each run."""

    replicas: Positive = Field(1, description="Worker pods; a workspace's maxWorkersPerJob caps it.")
    concurrency: Positive = Field(16, description="Items in flight in one worker, capped by the providers' rate limits.")
    pod_overrides: PodOverrides | None = Field(None, description="What is laid over the worker pods.")
