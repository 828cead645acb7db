"""Names that objects carry: the API group, annotations, labels and finalizers.

The one place for each of them; knows no model and no controller.
"""

from collections.abc import Mapping
from typing import Final

GROUP: Final = "omnia.altairalabs.ai"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
PREFIX: Final = f"arena.{GROUP}"
CATEGORY: Final = "arena"

TERMINAL_PHASES: Final[frozenset[str]] = frozenset({"Succeeded", "Failed", "Cancelled"})
"""Phases of an ArenaRun that has ended; they are final."""

REQUESTED_SYNC: Final = f"{PREFIX}/requested-sync"
"""Annotation on an ArenaProject: any new value asks for a look at the repository; answered in `status.lastHandledSync`."""
REQUESTED_RUN: Final = f"{PREFIX}/requested-run"
"""Annotation on an ArenaJob: a new id starts one run; answered in `status.lastHandledRun`."""
REQUESTED_REF: Final = f"{PREFIX}/requested-ref"
"""Annotation on an ArenaJob or ArenaRun: the ref that a person asked for, shown in `status.source.ref` while `ref` is pinned to a SHA."""
MOCK_PROVIDER: Final = f"{PREFIX}/mock-provider"
"""Annotation on an ArenaJob or ArenaRun: "true" replaces every provider by the mock; the results then say MOCKED."""
MOCK_CONFIG: Final = f"{PREFIX}/mock-config"
"""Annotation beside `MOCK_PROVIDER`: the file of the bundle that holds the mock's answers."""
ALLOW_FORCE: Final = f"{PREFIX}/allow-force"
"""Annotation on an ArenaProject: "true" lets a push rewrite or delete `main` of its hosted repository."""
ADOPT: Final = f"{PREFIX}/adopt"
"""Annotation on an ArenaProject: the uid of a deleted project of the same name, whose retained repository becomes this project's.

It is moved before a fresh repository is made or seeded, also in place of one without a commit, and answered in `status.lastHandledAdopt`. A
project that has commits of its own keeps them: the request is refused by an event. Where nothing is retained under the uid, the project is
Stalled with AdoptFailed and makes no repository. Once answered, the annotation has no effect and may stay."""
OUTPUT_PATH: Final = f"{PREFIX}/output"
"""Annotation on an ArenaRun: its directory, relative to the namespace's subtree of the content volume (`arena/runs/<run>`)."""

OUTPUT_FINALIZER: Final = f"{PREFIX}/output"
"""Finalizer on an ArenaRun: its directory is removed first. Part of the specification: people release it by hand."""
RUN_FINALIZER: Final = f"{PREFIX}/run"
"""Finalizer on an ArenaRun: its workers, queue keys and keep-ref are removed first."""
PROJECT_FINALIZER: Final = f"{PREFIX}/repository"
"""Finalizer on an ArenaProject: its pinned runs end first, then its sources go and its repository is retained or removed."""

JOB_LABEL: Final = f"{PREFIX}/job"
"""Label on an ArenaRun: the job that it was created from; cut and hashed when the name exceeds 63 characters."""
RUN_LABEL: Final = f"{PREFIX}/run"
"""Label on a worker Job and its pods: the run they work for; cut and hashed like `JOB_LABEL`."""
PROJECT_LABEL: Final = f"{PREFIX}/project"
"""Label on an ArenaRun: the project whose commit it tests; cut and hashed like `JOB_LABEL`."""
TRIGGER_LABEL: Final = f"{PREFIX}/trigger"
"""Label on an ArenaRun: its `spec.trigger`."""
WORKSPACE_LABEL: Final = f"{GROUP}/workspace"
"""Label on a Namespace: the Workspace that it belongs to; without it, the Workspace of the namespace's own name."""

MAX_REQUEST: Final = 1024
"""So many characters of a request annotation are read and answered; more would not fit the status field that answers."""


def request_of(annotations: Mapping[str, str] | None, name: str) -> str:
    """Return what an annotation asks for, "" when it asks for nothing."""
    return (annotations or {}).get(name, "")[:MAX_REQUEST]
