"""Conditions as they stand in a status, and the names of their types. What their reasons mean: `reasons`."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from reconcile.kinds.wire import ShortText, StatusModel, Timestamp


class ConditionType(StrEnum):
    """Every condition type that a kind of ours has."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    FETCH_FAILED = "FetchFailed"
    SOURCE_VALID = "SourceValid"
    JOB_CREATED = "JobCreated"
    PROGRESSING = "Progressing"
    QUEUE_REDIS_DRIFTED = "QueueRedisDrifted"
    WITHIN_WORKSPACE_QUOTA = "WithinWorkspaceQuota"
    OUTPUT_PERSISTED = "OutputPersisted"
    SECRET_FOUND = "SecretFound"  # noqa: S105 - a condition, not a password
    CREDENTIAL_CONFIGURED = "CredentialConfigured"
    ENDPOINT_REACHABLE = "EndpointReachable"


class Condition(StatusModel):
    """One aspect of an object's state, as Kubernetes' metav1.Condition."""

    type: ShortText = Field(description="Aspect that the condition speaks of.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: str = Field("", max_length=1024, description="Machine-readable word for why.")
    message: str = Field("", max_length=32768, description="Sentence for a person.")
    last_transition_time: Timestamp | None = Field(None, description="When the status last changed.")
    observed_generation: int | None = Field(None, json_schema_extra={"format": "int64"}, description="Generation that the condition speaks of.")


Conditions = Annotated[
    list[Condition],
    Field(max_length=32, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]
