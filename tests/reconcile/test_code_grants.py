"""Whose programs run: only the operator says so, and the plan carries it to the workers."""

from dataclasses import replace

import pytest

from engine.permissions import NO_GRANTS, Grants, Permissions
from engine.plan import Plan
from gitops.content import ProjectKey
from reconcile.run import RunReconciler
from reconcile.runtime.controller import Controller, ControllerOptions
from tests.reconcile.conftest import BUNDLE, CONFIG, PROMPT, World, condition

NAME = "arena/src"
WITH_PROGRAM = {
    **BUNDLE,
    "config.arena.yaml": CONFIG + "  tool_specs: {t: {description: d, input_schema: {}, mode: exec, exec: {command: ./t}}}\n",
    "prompt.yaml": PROMPT.replace("system_template", "allowed_tools: [t], system_template"),
}


def grant(world: World, grants: Grants) -> None:
    """Start the run controller again, with these grants."""
    runs = RunReconciler(replace(world.runs_world, grants=grants))
    world.controllers["ArenaRun"] = Controller(world.cluster, runs, clock=world.clock, options=ControllerOptions(debug=True))


@pytest.mark.parametrize(
    "grants", [pytest.param(NO_GRANTS, id="no grant"), pytest.param(Grants(code=frozenset(("arena/other", "team/src"))), id="another project's")]
)
async def test_a_run_with_programs_is_refused(world: World, grants: Grants) -> None:
    """Without its project's grant a run that would start programs fails before anything starts; the message names the command, and what would allow it."""
    grant(world, grants)
    await world.project_with(WITH_PROGRAM)
    await world.job(annotations={"arena.omnia.altairalabs.ai/allow-code": "true"})
    await world.look_at_all(2)
    run = await world.run()
    ready = condition(run)
    assert (run["status"]["phase"], ready["reason"]) == ("Failed", "NotSupported")
    assert "tool 't' is the command './t', and programs of this bundle are not allowed to run" in ready["message"]
    assert ready["message"].endswith(f"an operator may allow them: arena up --allow-code {NAME}")
    assert await world.worker_jobs() == []


async def test_a_grant_travels_in_the_plan(world: World) -> None:
    """With it the run starts, and its plan says what workers may do."""
    grant(world, Grants(code=frozenset((NAME,)), networks=("10.0.0.0/8",)))
    await world.project_with(WITH_PROGRAM)
    await world.job()
    await world.look_at_all(2)
    plan = Plan.from_bytes(await world.queue.plan((await world.run())["metadata"]["uid"]))
    assert plan.permissions == Permissions("confined", networks=("10.0.0.0/8",))
    assert len(await world.worker_jobs()) == 1


@pytest.mark.parametrize(
    ("grants", "permissions"),
    [
        pytest.param(NO_GRANTS, Permissions(), id="nothing"),
        pytest.param(Grants(code=frozenset((NAME,))), Permissions("confined"), id="code"),
        pytest.param(Grants(code_network=frozenset((NAME,))), Permissions("confined", code_network=True), id="the network implies code"),
        pytest.param(Grants(code_unconfined=frozenset((NAME,))), Permissions("unconfined"), id="so does going without walls"),
        pytest.param(Grants(frozenset((NAME,)), frozenset((NAME,)), frozenset((NAME,))), Permissions("unconfined", code_network=True), id="all"),
        pytest.param(Grants(code=frozenset(("arena/src2", "src", "arena"))), Permissions(), id="names that only look alike"),
    ],
)
def test_grants(grants: Grants, permissions: Permissions) -> None:
    """A grant is one project's, by its whole name."""
    project = ProjectKey("arena", "src")
    assert grants.of(project.namespace, project.name) == permissions
