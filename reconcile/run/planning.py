"""From files to a plan: read the bundle once, resolve the providers, write the plan, record its digest.

Later passes read the plan and never plan again: a changed bundle, Provider or program changes nothing of a run that has begun.
Source: survival.md, step 2.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from engine import errors as engine_errors
from engine.bundle import load_bundle
from engine.bundle.registry_tools import with_registry_tools
from engine.bundle.supported import check_supported
from engine.plan import Plan, PlanRequest, WorkerOptions, digest_of, make_plan
from foundation.crash import crash_point
from foundation.errors import ArenaError
from foundation.files import write_file
from gitops.storage_errors import storage
from reconcile.cluster.listing import every
from reconcile.cluster.port import ARENA_RUN
from reconcile.errors import Waiting
from reconcile.kinds.admission import spec_problems
from reconcile.kinds.not_supported import unsupported_fields
from reconcile.kinds.problems import Problem
from reconcile.kinds.reasons import EventReason, RunReason
from reconcile.run.credentials import find_secrets
from reconcile.run.job_creation import waiting_for_job
from reconcile.run.mocking import mock_override
from reconcile.run.ownership import Owner, claim, move_aside
from reconcile.run.providers import resolve_providers
from reconcile.run.scope import RunRefused, RunScope
from reconcile.run.tool_registries import registry_tools
from reconcile.run.workspace import find_workspace
from reconcile.worker_job import OverridesRefused, check_overrides, idle_here

SHOWN_WARNINGS = 10

_REASONS: tuple[tuple[type[ArenaError], str], ...] = (
    (engine_errors.ArenaFileNotFound, RunReason.ARENA_FILE_NOT_FOUND),
    (engine_errors.BundleInvalid, RunReason.BUNDLE_INVALID),
    (engine_errors.NoScenarios, RunReason.NO_SCENARIOS),
    (engine_errors.ProviderNotFound, RunReason.PROVIDER_NOT_FOUND),
    (engine_errors.MatrixTooLarge, RunReason.MATRIX_TOO_LARGE),
    (engine_errors.FeatureNotSupported, RunReason.NOT_SUPPORTED),
)
"""Which reason of a run each refusal of the engine becomes."""


async def check_template(run: RunScope) -> None:
    """Refuse what is invalid, then what is not supported yet, before anything starts."""
    if run.status.get("plan"):
        return
    template = run.spec["template"]
    problem = _problem(run)
    if problem is not None and problem.reason != RunReason.JOB_CREATION_FAILED:
        raise RunRefused(problem.reason, f"{problem.path}: {problem.message}")
    fields = unsupported_fields("ArenaJob", template, in_cluster=run.pods is not None)
    if fields:
        raise RunRefused(
            RunReason.NOT_SUPPORTED,
            f"not supported yet: {', '.join(fields)}",
            hint="leave the field out, or wait for the release that brings it",
        )
    _check_overrides(run)


def _check_overrides(run: RunScope) -> None:
    """Refuse overrides that clash with what is Arena's own in a worker, before anything starts."""
    overrides = run.template.workers.pod_overrides
    if overrides is None:
        return
    try:
        check_overrides(run.pods, overrides)
    except OverridesRefused as refused:
        raise RunRefused(RunReason.INVALID_SPEC, refused.message) from refused


async def check_references(run: RunScope) -> None:
    """Wait while the template names a Provider of another namespace; unlike a refused run, such a one can still be stopped."""
    problem = None if run.status.get("plan") else _problem(run)
    if problem is not None:
        raise waiting_for_job(run, f"{problem.path}: {problem.message}")


def _problem(run: RunScope) -> Problem | None:
    return next(iter(spec_problems(run.spec["template"], namespace=run.namespace)), None)


async def check_workspace(run: RunScope) -> None:
    """Refuse a run that its Workspace's quotas or services would bind, which nothing honours yet. A run that waits is not refused before it could start."""
    if run.status.get("plan"):
        return
    workspace = await find_workspace(run.cluster, run.namespace)
    fields = unsupported_fields("Workspace", workspace["spec"]) if workspace else []
    if workspace and fields:
        raise RunRefused(RunReason.NOT_SUPPORTED, f"Workspace '{workspace['metadata']['name']}' sets what is not supported yet: {', '.join(fields)}")


async def make_the_plan(run: RunScope) -> None:
    """Read the run's plan, or make it, write it and pin it."""
    pinned = run.status.get("plan")
    if pinned:
        run.plan = await _read(run, pinned["digest"])
        return
    plan, warnings, ignored = await _plan(run)
    crash_point("plan.made")
    with storage(f"write the plan of run '{run.name}'"):
        await claim_output(run)
        await asyncio.to_thread(write_file, plan_file(run.output, plan.digest), plan.to_bytes())
    crash_point("plan.written")
    run.status["plan"] = {
        "digest": plan.digest,
        "items": len(plan.items),
        "scenarios": len(plan.scenarios),
        "providers": len({item.provider for item in plan.items}),
        "trials": plan.trials,
    }
    run.status["outputPath"] = run.world.volume.relative(run.namespace, run.output)
    await run.scope.save()
    crash_point("plan.status_written")
    run.plan = plan
    for warning in (*warnings, *plan.warnings)[:SHOWN_WARNINGS]:
        await run.scope.event("Warning", EventReason.BUNDLE_WARNING, warning)
    for sentence in ignored[:SHOWN_WARNINGS]:
        await run.scope.event("Warning", EventReason.FIELD_IGNORED, sentence)


def plan_file(output: Path, digest: str) -> Path:
    """Return where a run's plan lies."""
    return output / f"plan-{digest.removeprefix('sha256:')}.json"


async def _plan(run: RunScope) -> tuple[Plan, Sequence[str], Sequence[str]]:
    """Return the plan, what is to be said of the bundle, and what of fields that have no effect."""
    template = run.template
    brought = await resolve_providers(run)
    tools, ignored = await registry_tools(run)
    request = PlanRequest(
        arena_file=template.arena_file,
        trials=template.trials,
        include=tuple(template.scenarios.include) if template.scenarios else (),
        exclude=tuple(template.scenarios.exclude) if template.scenarios else (),
        providers=brought.groups,
        mock=mock_override(run.annotations),
        tools=tools,
    )
    path = run.world.volume.snapshot(run.project, run.status["source"]["commit"])
    try:
        plan, warnings = await asyncio.to_thread(_plan_from_disk, path, request, _options(run))
    except engine_errors.EngineError as error:
        reason = next((reason for kind, reason in _REASONS if isinstance(error, kind)), None)
        if reason is None:
            raise
        hint = error.hint
        if isinstance(error, engine_errors.CodeNotAllowed):
            hint = f"an operator may allow them: arena {'up' if run.pods is None else 'controller'} --allow-code {run.project}"
        raise RunRefused(reason, error.message, hint=hint) from error
    _check_files(run, plan)
    secrets = await find_secrets(run, plan, brought.wishes)
    return replace(plan, secrets=secrets), warnings, [*brought.warnings, *ignored, *_idle_overrides(run)]


def _check_files(run: RunScope, plan: Plan) -> None:
    """Refuse keys in files where workers are processes of this machine: they could be any file of whoever runs it."""
    for ident, spec in (*plan.providers.items(), *plan.serving.items()):
        if run.pods is None and (spec.get("credential") or {}).get("credential_file"):
            raise RunRefused(
                RunReason.NOT_SUPPORTED,
                f"provider '{ident}' takes its key from a file, and workers here are processes of this machine, which has no files for them",
                hint="let it name a Secret or a variable",
            )


def _idle_overrides(run: RunScope) -> list[str]:
    overrides = run.template.workers.pod_overrides
    fields = idle_here(overrides) if overrides is not None and run.pods is None else []
    named = ", ".join(f"spec.workers.podOverrides.{name}" for name in fields)
    return [f"workers here are processes of this machine, of which nothing is said by {named}"] if fields else []


def _plan_from_disk(path: Path, request: PlanRequest, options: WorkerOptions) -> tuple[Plan, Sequence[str]]:
    bundle = load_bundle(path, request.arena_file, own_providers=request.providers is None)
    plan = make_plan(bundle, request, options)
    check_supported(with_registry_tools(bundle, plan.tools), plan)
    return plan, bundle.warnings


def _options(run: RunScope) -> WorkerOptions:
    """Return what workers need to know, frozen with the plan."""
    template = run.template
    return WorkerOptions(
        image=run.world.image,
        concurrency=template.workers.concurrency,
        item_timeout_s=template.item_timeout_s,
        max_attempts=template.max_attempts,
        retry_backoff_s=template.retry_backoff_s,
        confidence=template.confidence,
        permissions=run.world.grants.of(run.project.namespace, run.project.name),
        prices=run.world.prices,
    )


async def _read(run: RunScope, digest: str) -> Plan:
    """Read the pinned plan. What another release of this program wrote may be unreadable for good, so such a run ends rather than waits."""
    try:
        return _parsed(await _pinned(run, digest))
    except ValueError as error:
        message = f"cannot read the plan of run '{run.name}': another release of Arena made it ({error})"
        raise RunRefused(RunReason.WORKERS_FAILED, message, hint="start the run again") from error


async def _pinned(run: RunScope, digest: str) -> bytes:
    """Return the pinned plan's bytes from the volume, or from the queue's copy when the volume lost it."""
    with contextlib.suppress(OSError):
        data = await asyncio.to_thread(plan_file(run.output, digest).read_bytes)
        if digest_of(data) == digest:
            return data
    try:
        data = await run.world.queue.plan(run.uid)
    except (engine_errors.RunUnknown, engine_errors.RunSettled) as error:
        raise RunRefused(
            RunReason.QUEUE_LOST, f"cannot read the plan of run '{run.name}': neither the content volume nor the queue has it ({digest})"
        ) from error
    with contextlib.suppress(OSError):  # a run whose directory fails goes on
        await claim_output(run)
        await asyncio.to_thread(write_file, plan_file(run.output, digest), data)
    return data


@lru_cache(maxsize=8)
def _parsed(data: bytes) -> Plan:
    """Return the plan in a plan file. The last few are kept: every pass of a run asks for its own, and 10,000 items take 20 ms to unfold."""
    return Plan.from_bytes(data)


async def claim_output(run: RunScope) -> None:
    """Make the run's directory its own. One that a dead run of the same name left is moved aside; a living one's is waited for."""
    mine = Owner(run.uid, run.world.installation)
    owner = await asyncio.to_thread(claim, run.output, mine)
    if owner == mine:
        return
    if owner.uid in {other["metadata"]["uid"] async for other in every(run.cluster, ARENA_RUN, run.namespace)}:
        raise Waiting(RunReason.STORAGE_FAILED, f"directory '{run.output.name}' belongs to another run that still exists ({owner.uid})")
    await asyncio.to_thread(move_aside, run.output, owner)
    await asyncio.to_thread(claim, run.output, mine)
