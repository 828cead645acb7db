"""From a ref to files: wait for the project, pin the commit, export the snapshot.

Source: survival.md, step 1.
"""

import contextlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from foundation.crash import crash_point
from gitops.content import is_full_commit
from gitops.errors import GitError, RefNotFound, SnapshotUnexportable, UnknownProject
from gitops.refs import ResolvedRef
from gitops.snapshots import SnapshotLimits
from reconcile.cluster.port import ARENA_PROJECT
from reconcile.errors import NotFound, Waiting
from reconcile.kinds.names import REQUESTED_REF
from reconcile.kinds.project import ArenaProjectSpec
from reconcile.kinds.reasons import EventReason, RunReason
from reconcile.project.identity import BRANCHES, answers, default_branch, remote_url
from reconcile.project.limits import snapshot_limits
from reconcile.run.freshness import bring_up_to_date
from reconcile.run.scope import RunRefused, RunScope
from reconcile.run.stopping import is_drained

RETRY = timedelta(seconds=30)
HOSTED = "hosted"


async def await_project(run: RunScope) -> None:
    """Wait until the project is Ready, as far as is known; a run that has pinned its commit needs it no more.

    Memory alone keeps a run waiting, which a change of the project ends; what it says of a Ready project is looked at afresh before the commit is
    pinned. A full SHA gets its keep-ref at first sight, before the wait, so that no gc takes the commit meanwhile.
    """
    if run.status.get("source"):
        return
    ref = run.template.ref or ""
    if is_full_commit(ref) and await run.world.repositories.exists(run.project):
        await _keep(run, ref)
    try:
        project = await run.scope.look_up(ARENA_PROJECT, run.project.name)
    except NotFound as error:
        raise _not_ready(run, f"ArenaProject '{run.project.name}' does not exist") from error
    _check_ready(run, project)


def _check_ready(run: RunScope, project: Mapping[str, Any]) -> None:
    name = run.project.name
    if "deletionTimestamp" in project["metadata"]:
        raise _not_ready(run, f"ArenaProject '{name}' is being deleted")
    if not answers(project):
        raise _not_ready(run, f"ArenaProject '{name}' has not been fetched from {remote_url(project)}")
    ready = next((c for c in project.get("status", {}).get("conditions", []) if c["type"] == "Ready"), None)
    if ready is None or ready["status"] != "True":
        cause = f"{ready['reason']}: {ready['message']}" if ready else "it has not been looked at yet"
        raise _not_ready(run, f"ArenaProject '{name}' is not Ready ({cause})")


def _not_ready(run: RunScope, message: str) -> Waiting:
    run.scope.condition("SourceValid", "False", RunReason.PROJECT_NOT_READY, message)
    return Waiting(RunReason.PROJECT_NOT_READY, message, RETRY)


async def _keep(run: RunScope, commit: str) -> None:
    try:
        await run.world.repositories.resolve(run.project, commit)
    except RefNotFound:
        return
    await run.world.repositories.pin(run.project, run.uid, commit)


async def pin_commit(run: RunScope) -> None:
    """Resolve the ref, once and for all: keep-ref first, then `status.source`, then comes the export."""
    if run.status.get("source"):
        return
    project = await run.cluster.get(ARENA_PROJECT, run.namespace, run.project.name)
    branch = default_branch(project)
    _check_ready(run, project)
    if not branch:
        raise _not_ready(run, f"ArenaProject '{run.project.name}' has not been fetched")
    ref = run.template.ref or f"{BRANCHES}{branch}"
    stale = await bring_up_to_date(run, project, ref)
    try:
        resolved = await _resolve(run, ref)
    except RefNotFound as error:
        if stale:  # nobody knows whether the remote has it
            raise _not_ready(run, f"{error.message}, and the remote could not be asked: {stale}") from error
        run.scope.condition("SourceValid", "False", RunReason.REF_NOT_FOUND, error.message)
        raise RunRefused(RunReason.REF_NOT_FOUND, error.message, hint=error.hint) from error
    if resolved.ambiguous:
        await run.scope.event("Normal", EventReason.AMBIGUOUS_REF, f"'{ref}' names more than one ref; as git does, {resolved.ref} was taken")
    if stale:
        await run.scope.event("Warning", EventReason.STALE_SOURCE, f"'{ref}' is {resolved.commit[:12]} in the mirror, which may be old: {stale}")
    await run.world.repositories.pin(run.project, run.uid, resolved.commit)
    crash_point("pin.ref_written")
    path = run.world.volume.snapshot(run.project, resolved.commit)
    run.status["source"] = {
        "repository": remote_url(project) or HOSTED,
        "ref": run.annotations.get(REQUESTED_REF) or run.template.ref or branch,
        "commit": resolved.commit,
        "contentPath": run.world.volume.relative(run.namespace, path),
    }
    run.status.setdefault("display", {})["commit"] = resolved.commit[:12]
    run.scope.condition("SourceValid", "True", RunReason.PINNED, f"{run.template.ref or branch} is commit {resolved.commit}")
    await run.scope.save()
    crash_point("pin.status_written")


async def _resolve(run: RunScope, ref: str) -> ResolvedRef:
    """Resolve a ref as git does. A SHA that the run has kept since it was first seen is found whatever happened to the branches since."""
    if is_full_commit(ref) and (await run.world.repositories.pins(run.project)).get(run.uid) == ref:
        return ResolvedRef(ref, ref, ambiguous=False)
    return await run.world.repositories.resolve(run.project, ref)


async def export_snapshot(run: RunScope) -> None:
    """See to it that the commit is kept and its files are there, in every pass of a run that still needs them.

    A run of which nothing is left to begin goes on without them.
    """
    try:
        await _hold_commit(run)
        await _export(run)
    except (GitError, RunRefused):
        if not run.status.get("plan") or not (run.stop or await is_drained(run)):
            raise


async def _hold_commit(run: RunScope) -> None:
    """Point the keep-ref at the run's commit: a deposed controller may have repeated an older answer. Without a repository there is nothing to keep."""
    commit = run.status["source"]["commit"]
    with contextlib.suppress(UnknownProject, RefNotFound):
        if (await run.world.repositories.pins(run.project)).get(run.uid) != commit:
            await run.world.repositories.pin(run.project, run.uid, commit)


async def _export(run: RunScope) -> None:
    commit = run.status["source"]["commit"]
    if run.status.get("snapshotDigest") and await run.world.snapshots.find(run.project, commit) is not None:
        return
    try:
        snapshot = await run.world.snapshots.export(run.project, commit, await _limits(run))
    except SnapshotUnexportable as error:
        raise RunRefused(RunReason.SNAPSHOT_UNEXPORTABLE, error.message, hint=error.hint) from error
    digest = run.status.get("snapshotDigest")
    if digest and digest != snapshot.digest:
        raise RunRefused(
            RunReason.SNAPSHOT_UNEXPORTABLE,
            f"cannot export commit {commit[:12]} again: its files are not what they were (digest {snapshot.digest} instead of {digest})",
        )
    if not digest:
        run.status["snapshotDigest"] = snapshot.digest
        await run.scope.save()
        crash_point("export.status_written")
        for path in snapshot.lfs_pointers[:10]:
            await run.scope.event("Warning", EventReason.LFS_POINTER, f"'{path}' is a Git LFS pointer and was exported as it is")


async def _limits(run: RunScope) -> SnapshotLimits:
    try:
        project = await run.scope.look_up(ARENA_PROJECT, run.project.name)
    except NotFound:
        return SnapshotLimits()
    return snapshot_limits(ArenaProjectSpec.model_validate(project["spec"]).snapshots)
