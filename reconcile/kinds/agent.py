"""AgentRuntime: a deployed agent that can stand where a model stands. A neighbour: another product may own the kind."""

import re
from typing import ClassVar, Final

from pydantic import Field

from reconcile.kinds.conditions import Conditions
from reconcile.kinds.wire import OpenModel, PathText, Resource, ShortText, StatusModel

ENDPOINT_PATTERN: Final = r"^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?)(:[0-9]{1,5})?$"
DEFAULT_PORT: Final = 8080
RUNNING: Final = "Running"
"""The phase of an agent that can be talked to."""


def with_port(endpoint: str) -> str:
    """Return `host:port` of an endpoint whose port may be left out."""
    return endpoint if re.search(r":[0-9]+$", endpoint) and not endpoint.endswith("]") else f"{endpoint}:{DEFAULT_PORT}"


class AgentRuntimeSpec(OpenModel):
    """Where the agent listens, when nothing deploys it for us."""

    endpoint: str | None = Field(
        None,
        max_length=300,
        pattern=ENDPOINT_PATTERN,
        description="host:port of the agent's WebSocket, copied to the status; port 8080 when not set.",
    )


class AgentRuntimeStatus(StatusModel):
    """What a run reads of an agent."""

    phase: ShortText | None = Field(None, description="Pending, Running or Failed.")
    service_endpoint: PathText | None = Field(None, description="host:port that a run connects to.")
    observed_generation: int | None = Field(None, json_schema_extra={"format": "int64"}, description="Generation that this status speaks of.")
    conditions: Conditions = Field(default_factory=list, description="Ready.")


class AgentRuntime(Resource):
    """AgentRuntime is a deployed agent."""

    KIND: ClassVar[str] = "AgentRuntime"
    spec: AgentRuntimeSpec = Field(description="Where the agent listens.")
    status: AgentRuntimeStatus = Field(default_factory=AgentRuntimeStatus, description="What a run reads.")
