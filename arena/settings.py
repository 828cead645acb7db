"""The environment variables of the command line and the server: every name, and the only place in `arena` that reads them.

An option of the command line takes its variable from here, and an option on the line wins. What a worker process is told stands in
`engine.worker_settings`. Standard library only.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

STATE = "ARENA_STATE"
NAMESPACE = "ARENA_NAMESPACE"
OUTPUT = "ARENA_OUTPUT"
SELECTOR = "ARENA_SELECTOR"
WATCH = "ARENA_WATCH"
KUSTOMIZE = "ARENA_KUSTOMIZE"
FILENAME = "ARENA_FILENAME"

HOST = "ARENA_HOST"
PORT = "ARENA_PORT"
MAX_WORKERS = "ARENA_MAX_WORKERS"
REDIS_URL = "REDIS_URL"
LOG_LEVEL = "ARENA_LOG_LEVEL"
ALLOW_NETWORK = "ARENA_ALLOW_NETWORK"
WORKER_ENV = "ARENA_WORKER_ENV"
ALLOW_CODE = "ARENA_ALLOW_CODE"
ALLOW_CODE_NETWORK = "ARENA_ALLOW_CODE_NETWORK"
ALLOW_CODE_UNCONFINED = "ARENA_ALLOW_CODE_UNCONFINED"

CONTENT = "ARENA_CONTENT"
CONTENT_CLAIM = "ARENA_CONTENT_CLAIM"
INSTALLATION = "ARENA_INSTALLATION"
QUEUE_SECRET = "ARENA_QUEUE_SECRET"  # noqa: S105 - the name of a variable
WORKER_REDIS_URL = "ARENA_WORKER_REDIS_URL"
IMAGE = "ARENA_IMAGE"
GIT_URL = "ARENA_GIT_URL"
PROBE_PORT = "ARENA_PROBE_PORT"
WEBHOOK_PORT = "ARENA_WEBHOOK_PORT"
WEBHOOK_SERVICE = "ARENA_WEBHOOK_SERVICE"
WEBHOOK_CERTIFICATE = "ARENA_WEBHOOK_CERTIFICATE"
TOKEN_FILE = "ARENA_TOKEN_FILE"  # noqa: S105 - the name of a variable
KUBECONFIG = "KUBECONFIG"
CONTEXT = "ARENA_CONTEXT"
POD_NAMESPACE = "POD_NAMESPACE"
SERVICE_HOST = "KUBERNETES_SERVICE_HOST"
SERVICE_PORT = "KUBERNETES_SERVICE_PORT"

REF = "ARENA_REF"
WAIT = "ARENA_WAIT"
WAIT_TIMEOUT = "ARENA_WAIT_TIMEOUT"
WIDE = "ARENA_WIDE"
FAILED = "ARENA_FAILED"
FOLLOW = "ARENA_FOLLOW"

SCENARIO = "ARENA_SCENARIO"
PROVIDER = "ARENA_PROVIDER"
TRIALS = "ARENA_TRIALS"
MOCK_PROVIDER = "ARENA_MOCK_PROVIDER"
MOCK_CONFIG = "ARENA_MOCK_CONFIG"
JOBS = "ARENA_JOBS"
PRICES = "ARENA_PRICES"
LATENCY = "ARENA_LATENCY"
ESTIMATE_OUTPUT = "ARENA_ESTIMATE_OUTPUT"
OUT = "ARENA_OUT"
MEDIA_CACHE = "ARENA_MEDIA_CACHE"
EVAL_OUTPUT = "ARENA_EVAL_OUTPUT"
EVAL_ALLOW_CODE = "ARENA_EVAL_ALLOW_CODE"
EVAL_ALLOW_CODE_NETWORK = "ARENA_EVAL_ALLOW_CODE_NETWORK"
EVAL_ALLOW_CODE_UNCONFINED = "ARENA_EVAL_ALLOW_CODE_UNCONFINED"

UID = "ARENA_UID"
VERIFY_SNAPSHOTS = "ARENA_VERIFY_SNAPSHOTS"
VERIFY_OBJECTS = "ARENA_VERIFY_OBJECTS"
WITH_TOKEN = "ARENA_WITH_TOKEN"  # noqa: S105 - the name of a switch
DOCTOR_OUTPUT = "ARENA_DOCTOR_OUTPUT"

AGENT_SCENARIO = "ARENA_AGENT_SCENARIO"
AGENT_TASK_TYPE = "ARENA_AGENT_TASK_TYPE"
AGENT_PROVIDER = "ARENA_AGENT_PROVIDER"
AGENT_HOST = "ARENA_AGENT_HOST"
AGENT_PORT = "ARENA_AGENT_PORT"
AGENT_TOKEN_FILE = "ARENA_AGENT_TOKEN_FILE"  # noqa: S105 - the name of a variable
AGENT_MAX_SESSIONS = "ARENA_AGENT_MAX_SESSIONS"
AGENT_IDLE = "ARENA_AGENT_IDLE"

VALIDATE_OUTPUT = "ARENA_VALIDATE_OUTPUT"
REPORT_FORMAT = "ARENA_REPORT_FORMAT"
REPORT_ROWS = "ARENA_REPORT_ROWS"
REPORT_OUT = "ARENA_REPORT_OUT"
MOCKS_OUT = "ARENA_MOCKS_OUT"

_OWN = "ARENA_"
_OF_RUNS = ("ARENA_CREDENTIAL_", "ARENA_GIVEN")
"""What each run's workers have of their own, and nobody inherits."""
_PLAIN = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "VIRTUAL_ENV", "PYTHONPATH")
"""Variables that programs need to find their files and to write the time and the language of this machine."""

_NOBODY = {
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "CLOUDSDK_CONFIG": os.devnull,
    "NO_GCE_CHECK": "true",
    "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential",
}
"""Keeps the clouds' libraries from finding out who the operator is, by files and by this machine: a bundle could spend in that name."""

_GITHUB_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_GITHUB_WORKSPACE = "GITHUB_WORKSPACE"
_CRASH_AT = "ARENA_CRASH_AT"
_NO_COLOR = "NO_COLOR"


def colours_wanted() -> bool:
    """Say whether a terminal may get colours: NO_COLOR is absent or empty (no-color.org)."""
    return not os.environ.get(_NO_COLOR)


def github_step_summary() -> Path | None:
    """Return the file that a GitHub workflow shows below a step, None outside of one."""
    path = os.environ.get(_GITHUB_STEP_SUMMARY, "")
    return Path(path) if path else None


def github_workspace() -> Path:
    """Return the folder that a GitHub workflow's annotations count their files from: its checkout, otherwise the current one."""
    return Path(os.environ.get(_GITHUB_WORKSPACE) or Path.cwd())


def media_folder() -> Path | None:
    """Return where this person's programs keep media that are fetched (XDG base directories); None for somebody without a home."""
    home = os.environ.get("HOME", "")
    base = os.environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    return Path(base, "arena", "media") if base.startswith("/") else None


def crash_at() -> str:
    """Return the crash point that a test arms this process with, "" for none; worker processes inherit it."""
    return os.environ.get(_CRASH_AT, "")


def replace_environment(variables: Mapping[str, str]) -> None:
    """Make `variables` the whole environment of this process."""
    os.environ.clear()
    os.environ.update(variables)


def worker_environment(names: Iterable[str] = ()) -> dict[str, str]:
    """Return what a worker process inherits of this environment: what programs need to run, what is Arena's own, and the variables of these `names`.

    Nothing else, nobody's identity at a cloud, and no key of a run's providers: a bundle may name variables of its worker, for headers and programs, and whoever can push one is not always whose keys these are. Not
    our own address of the queue either: what a process was started with can be read for as long as it lives.
    """
    passed = {*_PLAIN, *names} - {REDIS_URL}
    own = {name: value for name, value in os.environ.items() if name in passed or (name.startswith(_OWN) and not name.startswith(_OF_RUNS))}
    return _NOBODY | own


def process_environment() -> Mapping[str, str]:
    """Return the whole environment of this process."""
    return os.environ
