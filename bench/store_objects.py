"""The objects of the bench of the store: jobs, runs that wait, and runs as they look that ended long ago."""

from foundation.clock import SystemClock
from reconcile.arena_run import run_object
from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, Cluster, Object, ResourceKind
from reconcile.kinds.names import OUTPUT_FINALIZER, OUTPUT_PATH, RUN_FINALIZER
from reconcile.naming import request_cause
from reconcile.runtime.conditions import timestamp

NAMESPACE, READY, EMPTY = "default", "support", "empty"
"""The namespace, and the projects with and without a commit."""


async def make_waiting_run(cluster: Cluster, job: Object, number: int) -> None:
    """Create a run that waits for its project."""
    await cluster.create(run_object(job, f"waiting-{number}", request_cause(f"waits-{number}"), trigger="Manual"))


async def make_ended_run(cluster: Cluster, job: Object, number: int, commit: str) -> None:
    """Create a run as one looks that ended long ago, every second one with a failure."""
    name, passed = f"{job['metadata']['name']}-{number:05}", number % 2 == 0
    run = run_object(job, name, request_cause(f"ended-{number}"), trigger="Manual")
    run["metadata"] |= {"finalizers": [RUN_FINALIZER, OUTPUT_FINALIZER]}
    run["metadata"]["annotations"] |= {OUTPUT_PATH: f"arena/runs/{name}"}
    await cluster.create(run)
    await cluster.patch_status(ARENA_RUN, NAMESPACE, name, _ended_status(name, commit, passed=passed))


def _ended_status(name: str, commit: str, *, passed: bool) -> Object:
    now = timestamp(SystemClock().now())
    reason, message = ("Succeeded", "40 of 40 items passed") if passed else ("TestsFailed", "38 of 40 items passed: 1 failed, 1 could not be run")
    words = {"reason": reason, "message": message, "lastTransitionTime": now, "observedGeneration": 1}
    states = {"Ready": passed, "Reconciling": False, "Stalled": not passed, "SourceValid": True, "JobCreated": True, "Progressing": False}
    counts = {
        "totalItems": "40",
        "passedItems": "40" if passed else "38",
        "failedItems": "0" if passed else "2",
        "passRate": "1.0" if passed else "0.95",
    }
    return {
        "phase": "Succeeded" if passed else "Failed",
        "source": {"repository": "hosted", "ref": "main", "commit": commit, "contentPath": f"arena/sources/{READY}/.arena/versions/{commit}"},
        "snapshotDigest": f"sha256:{'5' * 64}",
        "plan": {"digest": f"sha256:{'7' * 64}", "items": 40, "scenarios": 10, "providers": 2, "trials": 2},
        "queue": {"source": "Default", "serviceGroup": ""},
        "workers": 4,
        "activeWorkers": 0,
        "progress": {"total": 40, "completed": 40 if passed else 38, "failed": 0 if passed else 2, "pending": 0},
        "result": {"summary": {**counts, "avgDurationMs": "1520", "totalTokens": "48210", "totalCost": "0.4127", "drainedItems": "0"}},
        "outputPath": f"arena/runs/{name}",
        "startTime": now,
        "completionTime": now,
        "tidied": True,
        "display": {"commit": commit[:12], "progress": "40/40"},
        "observedGeneration": 1,
        "conditions": [{"type": kind, "status": str(holds), **words} for kind, holds in states.items()],
    }


def evaluation(number: int, project: str) -> Object:
    """Return a job of a project that keeps all its runs."""
    spec = {
        "sourceRef": {"name": project},
        "onPush": {"paths": ["prompts/**", "scenarios/**"]},
        "evaluation": {"minPassRate": 0.9},
        "workers": {"replicas": 2},
        "successfulRunsHistoryLimit": 100_000,
        "failedRunsHistoryLimit": 100_000,
    }
    return {**named(ARENA_JOB, f"job-{number:04}"), "spec": spec}


def named(kind: ResourceKind, name: str) -> Object:
    """Return an object of a name and nothing else."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, "namespace": NAMESPACE}}
