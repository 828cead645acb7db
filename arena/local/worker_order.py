"""What a batch/v1 Job asks of this machine, read and checked before anything is started.

Whoever holds the installation's token may write a Job, from another machine too if the server listens for those, so one that asks for more than a worker
needs is refused: another program, a path out of the content volume. A variable that could change what a program does is no variable of the process:
those beside a worker's own are given to it as data. Pure; starts nothing, and reads no Secret.
"""

import re
from pathlib import PurePosixPath
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from engine import worker_settings

MAX_PROCESSES = 1000
OWN_VARIABLES = re.compile(rf"ARENA_[A-Z0-9_]+|LOG_LEVEL|{worker_settings.REDIS_URL}")
"""The names that a Job may set of the process itself; all else of its environment is this machine's."""


class OrderRefused(Exception):
    """The Job cannot be run here; the text says why, for its status."""


class _Part(BaseModel):
    """A part of a Job; what we do not read may be anything."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, strict=True)


class Reference(_Part):
    """A Secret or a ConfigMap of the Job's namespace, or one key of it."""

    name: str
    key: str = ""
    optional: bool | None = None


class _Source(_Part):
    secret_key_ref: Reference | None = None
    config_map_key_ref: Reference | None = None

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        if (self.secret_key_ref is None) == (self.config_map_key_ref is None):
            raise ValueError("a value comes from a key of a Secret or of a ConfigMap")
        return self


class Variable(_Part):
    """A variable, with its value or where that is."""

    name: Annotated[str, Field(pattern=r"\A[-._a-zA-Z][-._a-zA-Z0-9]*\z")]
    value: str = ""
    value_from: _Source | None = None

    @property
    def is_own(self) -> bool:
        """Say whether it is one of the process itself."""
        return OWN_VARIABLES.fullmatch(self.name) is not None

    @model_validator(mode="after")
    def _keeps_the_address_secret(self) -> Self:
        if self.name == worker_settings.REDIS_URL and (self.value_from is None or self.value_from.secret_key_ref is None):
            raise ValueError("the queue's address comes from a secret")
        return self


class VariablesFrom(_Part):
    """A Secret or ConfigMap, all of whose keys are variables."""

    prefix: str = ""
    secret_ref: Reference | None = None
    config_map_ref: Reference | None = None


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
    env: tuple[Variable, ...] = Field((), strict=False)
    env_from: tuple[VariablesFrom, ...] = Field((), strict=False)
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
    def queue(self) -> Reference | None:
        """Return where the queue's address with the run's credentials is; None: the Job names no place."""
        sources = (variable.value_from for variable in self.container.env if variable.name == worker_settings.REDIS_URL)
        return next((source.secret_key_ref for source in sources if source), None)


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
