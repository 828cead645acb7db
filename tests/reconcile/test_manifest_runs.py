"""The manifests of the corpus whose verdict a controller gives: what the job says, and how the run ends."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from reconcile.cluster.port import ARENA_JOB
from tests.reconcile.conftest import World, condition

CORPUS = Path(__file__).parents[2] / ".." / "shared" / "corpus" / "manifests" / "cases.yaml"
NOT_BUILT = "TestsFailed"
"""The reason of cases that only a finished load test can show."""


def cases(*verdicts: str) -> list[Any]:
    """Return the corpus's job cases with one of the verdicts; a skipped one when there is no corpus."""
    if not CORPUS.exists():
        return [pytest.param({}, marks=pytest.mark.skip(reason="no corpus beside the repository"))]
    found = yaml.safe_load(CORPUS.read_text())["cases"]
    return [pytest.param(case, id=case["name"]) for case in found if case["verdict"] in verdicts and case.get("kind", "ArenaJob") == "ArenaJob"]


async def ended(world: World, case: dict[str, Any]) -> dict[str, Any]:
    """Apply a case's job and return its run after a few looks."""
    await world.project_with()
    await world.job(**case["spec"])
    await world.look_at_all(2)
    return await world.run()


@pytest.mark.parametrize("case", cases("run"))
async def test_the_run_says_so(world: World, case: dict[str, Any]) -> None:
    """A manifest that is taken, and that the run cannot honour, ends in the phase and reason of the corpus."""
    run = await ended(world, case)
    ready = condition(run)
    assert (run["status"]["phase"], ready["reason"]) == (case["phase"], case["reason"]), ready["message"]
    assert case.get("message", "") in ready["message"]


@pytest.mark.parametrize("case", cases("admission"))
async def test_without_admission_the_run_says_so(lenient_world: World, case: dict[str, Any]) -> None:
    """Where no admission refuses a manifest, the run fails with the corpus's reason."""
    if case["reason"] == NOT_BUILT:
        pytest.skip("load tests are not built yet: such a run is NotSupported")
    run = await ended(lenient_world, case)
    condition_type = "JobCreated" if case.get("phase") == "Pending" else "Ready"
    found = condition(run, condition_type)
    assert (run["status"]["phase"], found["reason"]) == (case.get("phase", "Failed"), case["reason"]), found["message"]
    assert case.get("message", "") in found["message"]


@pytest.mark.parametrize("case", cases("job"))
async def test_the_job_says_so(world: World, case: dict[str, Any]) -> None:
    """A job that can never start a run by the clock is Ready=False with the corpus's reason, and starts none."""
    await world.project_with()
    await world.job(**case["spec"])
    await world.look_at_all(2)
    assert condition(await world.get(ARENA_JOB, "eval"))["reason"] == case["reason"]
    assert await world.runs() == []
