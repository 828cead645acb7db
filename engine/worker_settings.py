"""The environment variables of a worker process: the only place in `engine` that names them.

Whoever starts a worker writes them with `to_environment`, the worker reads them with `from_environment`. Must not hold a provider's credential:
those are read by name where a provider needs one.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import EngineError
from engine.items import RunUID
from engine.worker import WorkerOptions

RUN_UID = "ARENA_RUN_UID"
RUN_NAME = "ARENA_RUN_NAME"
REDIS_URL = "REDIS_URL"
INSTALLATION = "ARENA_INSTALLATION"
CONTENT = "ARENA_CONTENT_PATH"
OUTPUT = "ARENA_OUTPUT_PATH"
MEDIA_CACHE = "ARENA_MEDIA_CACHE"
WORKER_NAME = "ARENA_WORKER_NAME"
CONCURRENCY = "ARENA_CONCURRENCY"
WORKERS = "ARENA_WORKERS"
LEASE_SECONDS = "ARENA_LEASE_SECONDS"
GRACE_SECONDS = "ARENA_GRACE_SECONDS"
CRASH_AT = "ARENA_CRASH_AT"
VERBOSE = "ARENA_VERBOSE"
GIVEN = "ARENA_GIVEN"
"""Holds, as JSON, variables that a process of this machine gets as data: nothing that reads its own environment, as the loader of programs, sees them."""
CREDENTIAL = "ARENA_CREDENTIAL_"
"""Begins the names of the variables that hold the keys of a job's providers."""

_RENEWALS_A_LEASE = 3


class WorkerMisconfigured(EngineError):
    """A worker's environment lacks a variable, or one cannot be read; the message names it."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """All that a worker process is told.

    `content` is the snapshot's directory, `output` the run's directory (None: no files). `concurrency` 0 takes the plan's. Leases are renewed
    three times a lease time. `workers` is how many work at the run, this one included: limits of a provider hold for all of them. `media_cache` is
    a folder for media that are fetched, None for one in the run's directory, where all workers of the run see the same. `crash_at` arms a crash point,
    in tests. `verbose` asks for debug logging.
    """

    run: RunUID
    redis_url: str
    installation: str
    content: Path
    output: Path | None = None
    media_cache: Path | None = None
    run_name: str = ""
    name: str = "worker"
    concurrency: int = 0
    workers: int = 1
    lease_s: float = 30.0
    grace_s: float = 20.0
    crash_at: str = ""
    verbose: bool = False

    @property
    def media(self) -> Path | None:
        """Return the folder for media; None when a worker has no place for them but its own."""
        return self.media_cache or (self.output / "media" if self.output is not None else None)

    @property
    def options(self) -> WorkerOptions:
        """Return the worker's own part."""
        return WorkerOptions(
            name=self.name,
            run_name=self.run_name,
            concurrency=self.concurrency,
            lease_s=self.lease_s,
            renew_s=self.lease_s / _RENEWALS_A_LEASE,
            grace_s=self.grace_s,
        )

    def to_environment(self) -> dict[str, str]:
        """Return the variables from which `from_environment` reads these settings. The URL may hold a password: keep it out of specs and logs."""
        variables = {
            RUN_UID: str(self.run),
            RUN_NAME: self.run_name,
            REDIS_URL: self.redis_url,
            INSTALLATION: self.installation,
            CONTENT: str(self.content),
            OUTPUT: str(self.output or ""),
            MEDIA_CACHE: str(self.media_cache or ""),
            WORKER_NAME: self.name,
            CONCURRENCY: str(self.concurrency),
            WORKERS: str(self.workers),
            LEASE_SECONDS: f"{self.lease_s:g}",
            GRACE_SECONDS: f"{self.grace_s:g}",
            CRASH_AT: self.crash_at,
            VERBOSE: "true" if self.verbose else "",
        }
        return {name: value for name, value in variables.items() if value}


def from_environment(environment: Mapping[str, str]) -> WorkerSettings:
    """Return the settings that `environment` holds; an empty variable counts as absent.

    Raises:
        WorkerMisconfigured: a variable is missing or cannot be read.
    """
    output, media_cache = environment.get(OUTPUT, ""), environment.get(MEDIA_CACHE, "")
    return WorkerSettings(
        run=RunUID(_required(environment, RUN_UID)),
        redis_url=_required(environment, REDIS_URL),
        installation=_required(environment, INSTALLATION),
        content=Path(_required(environment, CONTENT)),
        output=Path(output) if output else None,
        media_cache=Path(media_cache) if media_cache else None,
        run_name=environment.get(RUN_NAME, ""),
        name=environment.get(WORKER_NAME) or environment.get("HOSTNAME") or "worker",
        concurrency=int(_number(environment, CONCURRENCY, 0, low=0, high=10_000)),
        workers=int(_number(environment, WORKERS, 1, low=1, high=100_000)),
        lease_s=_number(environment, LEASE_SECONDS, 30.0, low=0.1, high=3600),
        grace_s=_number(environment, GRACE_SECONDS, 20.0, low=0, high=3600),
        crash_at=environment.get(CRASH_AT, ""),
        verbose=environment.get(VERBOSE, "") == "true",
    )


def packed(given: Mapping[str, str]) -> dict[str, str]:
    """Return variables as data, for the environment of a process; `unpacked` finds them there."""
    return {GIVEN: json.dumps(given)} if given else {}


def unpacked(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with the variables that it has as data; none of these takes the place of one of the process's own."""
    return {**json.loads(environment.get(GIVEN) or "{}"), **{name: value for name, value in environment.items() if name != GIVEN}}


def _required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise WorkerMisconfigured(
            f"cannot start the worker: {name} is not set", hint="workers are started by `arena up` or as a Kubernetes Job, not by hand"
        )
    return value


def _number(environment: Mapping[str, str], name: str, default: float, *, low: float, high: float) -> float:
    text = environment.get(name) or str(default)
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise WorkerMisconfigured(f"cannot start the worker: {name} is '{text}', not a number from {low:g} to {high:g}")
    return value
