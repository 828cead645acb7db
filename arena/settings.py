"""The environment variables of the command line and the server: every name, and the only place in `arena` that reads them.

An option of the command line takes its variable from here, and an option on the line wins. What a worker process is told stands in
`engine.worker_settings`. Standard library only.
"""

import os
from collections.abc import Mapping

STATE = "ARENA_STATE"
NAMESPACE = "ARENA_NAMESPACE"
OUTPUT = "ARENA_OUTPUT"
SELECTOR = "ARENA_SELECTOR"
WATCH = "ARENA_WATCH"
FILENAME = "ARENA_FILENAME"

HOST = "ARENA_HOST"
PORT = "ARENA_PORT"
MAX_WORKERS = "ARENA_MAX_WORKERS"
REDIS_URL = "REDIS_URL"
LOG_LEVEL = "ARENA_LOG_LEVEL"
ALLOW_NETWORK = "ARENA_ALLOW_NETWORK"

REF = "ARENA_REF"
WAIT = "ARENA_WAIT"
WIDE = "ARENA_WIDE"
FAILED = "ARENA_FAILED"
FOLLOW = "ARENA_FOLLOW"

SCENARIO = "ARENA_SCENARIO"
PROVIDER = "ARENA_PROVIDER"
TRIALS = "ARENA_TRIALS"
MOCK_PROVIDER = "ARENA_MOCK_PROVIDER"
MOCK_CONFIG = "ARENA_MOCK_CONFIG"
JOBS = "ARENA_JOBS"
OUT = "ARENA_OUT"
EVAL_OUTPUT = "ARENA_EVAL_OUTPUT"

UID = "ARENA_UID"
VERIFY_SNAPSHOTS = "ARENA_VERIFY_SNAPSHOTS"
VERIFY_OBJECTS = "ARENA_VERIFY_OBJECTS"
WITH_TOKEN = "ARENA_WITH_TOKEN"  # noqa: S105 - the name of a switch
DOCTOR_OUTPUT = "ARENA_DOCTOR_OUTPUT"

_CRASH_AT = "ARENA_CRASH_AT"
_NO_COLOR = "NO_COLOR"


def colours_wanted() -> bool:
    """Say whether a terminal may get colours: NO_COLOR is absent or empty (no-color.org)."""
    return not os.environ.get(_NO_COLOR)


def crash_at() -> str:
    """Return the crash point that a test arms this process with, "" for none; worker processes inherit it."""
    return os.environ.get(_CRASH_AT, "")


def replace_environment(variables: Mapping[str, str]) -> None:
    """Make `variables` the whole environment of this process."""
    os.environ.clear()
    os.environ.update(variables)


def process_environment() -> Mapping[str, str]:
    """Return the whole environment of this process: what a worker process reads, and what one that we start inherits."""
    return os.environ
