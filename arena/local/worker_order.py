"""What a batch/v1 Job asks of this machine, read and checked before anything is started.

Whoever holds the installation's token may write a Job, from another machine too if the server listens for those, so one that asks for more than a worker
needs is refused: another program, a variable that could change what a program does, a path out of the content volume. The queue's address may come from
a Secret, and nothing else may. Pure; starts nothing, and reads no Secret.
"""

from pathlib import PurePosixPath
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from engine import worker_settings

MAX_PROCESSES = 1000
VARIABLES = rf"(ARENA_[A-Z0-9_]+|LOG_LEVEL|{worker_settings.REDIS_URL})"
"""The names that a Job may set; all else a worker has from this machine."""


class OrderRefused(Exception):
    """The Job cannot be run here; the text says why, for its status."""


class _Part(BaseModel):
    """A part of a Job; what we do not read may be anything."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, strict=True)


class SecretKey(_Part):
    """One key of a Secret of the Job's namespace."""

    name: str
    key: str


class _Source(_Part):
    secret_key_ref: SecretKey


class _Variable(_Part):
    name: Annotated[str, Field(pattern=rf"\A{VARIABLES}\z")]
    value: str = ""
    value_from: _Source | None = None

    @model_validator(mode="after")
    def _keeps_secrets_apart(self) -> Self:
        if (self.name == worker_settings.REDIS_URL) != (self.value_from is not None):
            raise ValueError("the queue's address, and nothing else, comes from a secret")
        return self


class _Mount(_Part):
    mount_path: str
    sub_path: str = ""

    @model_validator(mode="after")
    def _stays_inside(self) -> Self:
        path = PurePosixPath(self.sub_path)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError("subPath must stay inside the volume")
        return self


class _Container(_Part):
    command: tuple[str, ...] = Field(strict=False)
    env: tuple[_Variable, ...] = Field((), strict=False)
    volume_mounts: tuple[_Mount, ...] = Field((), strict=False)


class _Pod(_Part):
    containers: Annotated[tuple[_Container, ...], Field(strict=False, min_length=1, max_length=1)]


class _Template(_Part):
    spec: _Pod


class WorkerOrder(_Part):
    """How many processes a Job wants, how often each may fail, how long the Job stays when it has ended, and what each process is."""

    completions: Annotated[int, Field(ge=1, le=MAX_PROCESSES)] = 1
    backoff_limit_per_index: Annotated[int, Field(ge=0)] = 0
    ttl_seconds_after_finished: Annotated[int, Field(ge=0)] | None = None
    template: _Template

    @property
    def container(self) -> _Container:
        """Return the one container."""
        return self.template.spec.containers[0]

    @property
    def queue(self) -> SecretKey | None:
        """Return where the queue's address with the run's credentials is; None: the Job names no place."""
        return next((variable.value_from.secret_key_ref for variable in self.container.env if variable.value_from), None)


def read_order(job: dict[str, Any], command: tuple[str, ...]) -> WorkerOrder:
    """Return what a Job asks for. `command` is the only one that may be asked for.

    Raises:
        OrderRefused: it asks for something else, or cannot be read.
    """
    try:
        order = WorkerOrder.model_validate(job.get("spec"))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise OrderRefused(f"cannot run the Job here: spec.{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}") from error
    if order.container.command != command:
        raise OrderRefused(f"cannot run the Job here: its command must be '{' '.join(command)}'")
    return order
