"""What all kinds share on the wire: camelCase names, references, string types with their bounds, metadata, the envelope.

Every string and list that a rule of the API server may read has a bound, since the server refuses rules whose cost it cannot bound.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError
from pydantic.alias_generators import to_camel

from reconcile.errors import FieldError, Invalid
from reconcile.kinds.names import API_VERSION
from reconcile.kinds.quantities import DECIMAL_PATTERN, DURATION_PATTERN

_INT32_MAX = 2**31 - 1
_LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"

ObjectName = Annotated[str, Field(min_length=1, max_length=253)]
LabelName = Annotated[str, Field(max_length=63, pattern=_LABEL_PATTERN)]
SecretKey = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
ShortText = Annotated[str, Field(max_length=253)]
PathText = Annotated[str, Field(max_length=1024)]
LongText = Annotated[str, Field(max_length=4096)]
Glob = Annotated[str, Field(min_length=1, max_length=512)]
RefName = Annotated[str, Field(max_length=512)]
Duration = Annotated[str, Field(max_length=32, pattern=DURATION_PATTERN)]
DecimalText = Annotated[str, Field(max_length=32, pattern=DECIMAL_PATTERN)]
Count = Annotated[int, Field(ge=0, le=_INT32_MAX, json_schema_extra={"format": "int32"})]
Positive = Annotated[int, Field(ge=1, le=_INT32_MAX, json_schema_extra={"format": "int32"})]
ByteCount = Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]


def _utc(value: object) -> object:
    if isinstance(value, str) and value.endswith("Z"):
        return datetime.fromisoformat(value)
    return value


def _rfc3339(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="microseconds" if value.microsecond else "seconds").replace("+00:00", "Z")


Timestamp = Annotated[datetime, BeforeValidator(_utc, json_schema_input_type=datetime), PlainSerializer(_rfc3339, return_type=str)]
"""A moment in UTC, `2026-01-01T00:00:00Z` on the wire."""


class WireModel(BaseModel):
    """A part of a spec: camelCase on the wire, snake_case here, and unknown keys are errors."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", defer_build=True)


class StatusModel(BaseModel):
    """A part of a status: like `WireModel`, but keys of newer writers are passed over."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", defer_build=True)


class OpenModel(BaseModel):
    """A spec that another product may own: the keys declared here are checked, all others are kept."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow", defer_build=True)


class LocalReference(WireModel):
    """An object of the same namespace, by name."""

    name: ObjectName = Field(description="Name of the object.")


class SecretKeyReference(WireModel):
    """One key of a Secret of the same namespace."""

    name: ObjectName = Field(description="Name of the Secret.")
    key: SecretKey = Field(description="Key within the Secret.")


class OwnerReference(StatusModel):
    """Who an object belongs to; it goes when its owner goes."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(BaseModel):
    """Kubernetes' object metadata, as far as Arena reads it; other keys are kept."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow", defer_build=True)

    name: str = ""
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: list[str] = Field(default_factory=list)
    owner_references: list[OwnerReference] = Field(default_factory=list)


class Resource(BaseModel):
    """The envelope of every kind: apiVersion, kind, metadata; a subclass adds spec and status."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", defer_build=True)
    KIND: ClassVar[str]

    api_version: str = API_VERSION
    kind: str = ""
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)

    @classmethod
    def from_object(cls, obj: dict[str, Any]) -> Self:
        """Read an object as a store returns it.

        Raises:
            Invalid: it is of another kind, or does not fit the model: it was stored by something that did not admit it.
        """
        name = str((obj.get("metadata") or {}).get("name", ""))
        if obj.get("kind", cls.KIND) != cls.KIND:
            raise Invalid([FieldError("kind", f'Invalid value: "{obj.get("kind")}": must be {cls.KIND}')], kind=cls.KIND, name=name)
        try:
            return cls.model_validate(obj)
        except ValidationError as error:
            raise Invalid([FieldError(_path(e["loc"]), f"Invalid value: {e['msg']}") for e in error.errors()], kind=cls.KIND, name=name) from error

    def to_object(self) -> dict[str, Any]:
        """Write the object as a store takes it: camelCase, defaults included, no nulls, times as RFC 3339 in UTC."""
        dumped: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        dumped["kind"] = self.KIND
        dumped["metadata"] = {key: value for key, value in dumped["metadata"].items() if value not in ({}, [], "")}
        return dumped


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path
