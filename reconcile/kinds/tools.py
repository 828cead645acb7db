"""ToolRegistry: tools behind HTTP endpoints that replace a bundle's. A neighbour: another product may own the kind."""

from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from reconcile.kinds.conditions import Conditions
from reconcile.kinds.wire import Count, LabelName, LongText, OpenModel, PathText, Resource, ShortText, StatusModel, WireModel

TOOL_NAME_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"
ENDPOINT_PATTERN: Final = r"^https?://[^\s]+$"


class HandlerTool(WireModel):
    """The tool that a handler offers."""

    name: str = Field(min_length=1, max_length=64, pattern=TOOL_NAME_PATTERN, description="Name that the model calls.")
    description: LongText = Field(min_length=1, description="What the tool does, for the model.")
    input_schema: dict[str, Any] = Field(description="JSON schema of the arguments.")


class HTTPConfig(WireModel):
    """The request that a call becomes."""

    endpoint: str = Field(max_length=2048, pattern=ENDPOINT_PATTERN, description="URL of the tool.")
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] | None = Field(None, description="Method of the request; POST when not set.")
    headers: dict[str, LongText] = Field(default_factory=dict, max_length=64, description="More headers of the request.")


class Handler(WireModel):
    """One tool and how it is called."""

    name: LabelName = Field(min_length=1, description="Name of the handler, unique in the registry.")
    type: Literal["http"] = Field(description="How the tool is called.")
    tool: HandlerTool = Field(description="The tool.")
    http_config: HTTPConfig = Field(description="The request.")


class ToolRegistrySpec(OpenModel):
    """The tools of this registry."""

    handlers: list[Handler] = Field(
        min_length=1,
        max_length=128,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        description="Tools, discovered as written.",
    )


class DiscoveredTool(StatusModel):
    """A tool that a run can call."""

    name: ShortText = Field(description="Name of the tool.")
    handler_name: ShortText | None = Field(None, description="The handler that offers it.")
    description: LongText | None = Field(None, description="What the tool does.")
    input_schema: dict[str, Any] | None = Field(None, description="JSON schema of the arguments.")
    endpoint: PathText | None = Field(None, description="URL that a call goes to.")
    status: ShortText | None = Field(None, description="Available or Unavailable.")


class ToolRegistryStatus(StatusModel):
    """What a run reads of a registry."""

    phase: ShortText | None = Field(None, description="Ready, Degraded, Pending or Failed.")
    discovered_tools: list[DiscoveredTool] = Field(default_factory=list, max_length=1024, description="The tools.")
    discovered_tools_count: Count | None = Field(None, description="Number of tools, for the column.")
    observed_generation: int | None = Field(None, json_schema_extra={"format": "int64"}, description="Generation that this status speaks of.")
    conditions: Conditions = Field(default_factory=list, description="Ready.")


class ToolRegistry(Resource):
    """ToolRegistry is a set of tools behind HTTP endpoints."""

    KIND: ClassVar[str] = "ToolRegistry"
    spec: ToolRegistrySpec = Field(description="The tools.")
    status: ToolRegistryStatus = Field(default_factory=ToolRegistryStatus, description="What a run reads.")
