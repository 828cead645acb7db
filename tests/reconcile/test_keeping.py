"""What is remembered of a run, a worker Job and a Secret, and when a run is final."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from reconcile.arena_run import cause_of, created, finished, run_object
from reconcile.cluster.port import ARENA_JOB, Object
from reconcile.job.history import superfluous
from reconcile.keeping import KEEPING, is_final, run_projection, waits
from reconcile.mapping import project_of_ended_run
from reconcile.runtime.reflector import by_owner

JOB: Object = {
    "apiVersion": ARENA_JOB.api_version,
    "kind": "ArenaJob",
    "metadata": {"name": "eval", "namespace": "arena", "uid": "job-uid"},
    "spec": {"sourceRef": {"name": "src"}, "evaluation": {"minPassRate": 0.9}},
}


def ended(**status: Any) -> Object:
    """Return a run that has ended and was tidied."""
    run = run_object(JOB, "eval-x", "push:refs/heads/main:abc:1", trigger="Push", ref="refs/heads/main", commit="a" * 40)
    run["metadata"] |= {"uid": "run-uid", "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "7", "generation": 2}
    run["status"] = {
        "phase": "Failed",
        "source": {"commit": "a" * 40, "ref": "main", "repository": "hosted"},
        "queue": {"source": "Default"},
        "tidied": True,
        "result": {"summary": {"passRate": "0.5"}},
        "completionTime": "2026-01-01T01:00:00Z",
        "observedGeneration": 2,
        "conditions": [{"type": "Ready", "status": "False", "reason": "TestsFailed"}],
    } | status
    return run


@pytest.mark.parametrize(
    ("status", "final"),
    [
        pytest.param({}, True, id="all said and done"),
        pytest.param({"phase": "Running"}, False, id="not ended"),
        pytest.param({"tidied": None}, False, id="its keys may be there"),
        pytest.param({"tidied": None, "queue": None}, False, id="a queue that is spelled but empty"),
        pytest.param({"observedGeneration": 1}, False, id="changed since"),
        pytest.param({"conditions": []}, False, id="no verdict said"),
    ],
)
def test_final(status: dict[str, Any], *, final: bool) -> None:
    """A run is final when it has ended, its verdict is said for the generation that it has, and its keys are gone."""
    assert is_final(ended(**status)) == final


def test_a_run_that_never_had_a_queue_is_final_at_its_end() -> None:
    """What was refused before it had a queue left no keys."""
    run = ended()
    del run["status"]["queue"], run["status"]["tidied"]
    assert is_final(run)


def test_a_run_that_goes_is_not_final() -> None:
    """A deleted run has its traces to remove."""
    run = ended()
    run["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    assert not is_final(run)


READERS: list[Callable[[Object], object]] = [
    created,
    finished,
    cause_of,
    waits,
    project_of_ended_run,
    by_owner(ARENA_JOB),
    lambda run: superfluous([run], successful=0, failed=0) == [run],
    lambda run: run["metadata"]["uid"],
    lambda run: run["status"]["source"]["commit"],
    lambda run: run["spec"]["template"]["ref"],
]


@pytest.mark.parametrize("reader", READERS)
def test_a_projection_reads_as_the_run(reader: Callable[[Object], object]) -> None:
    """Whatever others than the run controller read of a run, they read the same of its projection."""
    assert reader(run_projection(ended())) == reader(ended())


@pytest.mark.parametrize(
    "run", [{"metadata": {"name": "x"}}, {"metadata": {"name": "x"}, "spec": {"template": None}, "status": None}], ids=["bare", "null"]
)
def test_an_odd_run_is_remembered_too(run: Object) -> None:
    """A store without our schema may hold anything; what follows runs must not end by it."""
    before = deepcopy(run)
    keeping = next(each for each in KEEPING if each.kind.kind == "ArenaRun")
    assert not is_final(run)
    kept = run_projection(run)
    assert [list(find(kept)) for find in keeping.indexes.values()] == [[], [""]]
    assert run == before
