"""An external project: its remote is fetched when it is due, and the mirror's default branch exported.

The only caller of `Mirrors.fetch`, and the only writer of `lastFetchTime`: a run, a webhook or a person asks by the requested-sync annotation.
Owns the order of steps and what a failure means; when a fetch is due is `schedule.py`'s, what a mirror is `gitops`'.
"""

import random
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Any

from foundation.crash import crash_point
from gitops.errors import RefNotFound
from gitops.mirrors import MirrorState
from gitops.remote import check_url
from reconcile.cluster.port import Object
from reconcile.errors import Stalled, Waiting
from reconcile.kinds.conditions import ConditionType
from reconcile.kinds.project import External
from reconcile.kinds.quantities import parse_duration
from reconcile.kinds.reasons import EventReason, ProjectReason
from reconcile.live_runs import live_runs
from reconcile.project.changes import describe_changes, describe_names
from reconcile.project.head import LONGEST_REF, export_head, forget_head, prune_snapshots, show_refs, suspended
from reconcile.project.identity import BRANCHES
from reconcile.project.needs import needs_source
from reconcile.project.problems import FAILURES, SourceProblem, problem_of
from reconcile.project.remote import find_secret, remote_of, secret_version
from reconcile.project.schedule import SPREAD, Want, is_due, wait_for
from reconcile.project.scope import LOOK_AGAIN, ProjectScope
from reconcile.project.turns import NEXT_TURN
from reconcile.runtime.conditions import timestamp
from reconcile.runtime.reconciler import Done, Result

FETCH_FAILED = ConditionType.FETCH_FAILED.value
_OF_THE_REMOTE = ("defaultBranch", "refs", "lastFetchTime", "nextFetchTime", "fetchFailure", "credentialsVersion")


async def look_at_external(project: ProjectScope, external: External) -> Result:
    """Fetch the remote if it is due, and see to it that the default branch's tip is exported.

    Ready stays True while a head is exported; FetchFailed says that it may be old.

    Raises:
        Stalled: the spec cannot be carried out.
        Waiting: there is no head yet; the reason says why.
    """
    project.status.setdefault("display", {})["kind"] = "external"
    cause = check_url(external.url)
    if cause is not None:
        project.answer_request()
        raise Stalled(ProjectReason.INVALID_SPEC, f"spec.external.url cannot be mirrored: {cause}", hint="write it as https://host/path")
    await _be_of(project, external)
    if project.spec.suspend:
        project.status.pop("nextFetchTime", None)
        return suspended(project)
    secret = await find_secret(project.scope.cluster, project.project.namespace, external)
    interval, now = parse_duration(external.poll_interval), project.scope.clock.now()
    missing = not await project.world.repositories.exists(project.project)
    want = Want(project.scope.generation, project.requested, secret_version(secret), missing)
    due = is_due(project.status, want, interval, now)
    with project.world.turns.take(project.project.namespace) if due else nullcontext(False) as fetches:  # noqa: FBT003 - as `take` yields it
        if fetches:
            await _fetch(project, external, secret, now)
        elif due:
            project.status.pop("nextFetchTime", None)  # it stays due, although the pass will have seen the spec
    problem = await _take_head(project, tidy=fetches)
    if fetches:
        await project.catch_up()  # or a repository that is pushed to faster than its head is exported would never answer anybody
    return _outcome(project, problem, now + NEXT_TURN if due and not fetches else None)


async def _be_of(project: ProjectScope, external: External) -> None:
    """See to it that the mirror, if there is one, is of this remote.

    `status.repositoryURL` is written before anything of the remote comes in. So what lies there under another URL, or under none (an object of this
    name that went without its finalizer left it), is not this project's, and goes; a run that has pinned a commit of it gets its files first.
    """
    known = project.status.get("repositoryURL")
    if known == external.url:
        return
    runs = await live_runs(project.scope.cluster, project.scope.key)
    waiting = [run["metadata"]["name"] for run in runs if needs_source(run) and not run["status"].get("snapshotDigest")]
    if waiting and known:
        raise Waiting(ProjectReason.PROJECT_IN_USE, f"waiting for runs of {known} to have their files: {', '.join(waiting[:10])}", LOOK_AGAIN)
    await project.world.repositories.remove(project.project)
    crash_point("remote.forgotten")
    await forget_head(project)
    for field in _OF_THE_REMOTE:
        project.status.pop(field, None)
    project.status["conditions"] = [c for c in project.status.get("conditions", []) if c["type"] != FETCH_FAILED]
    project.status["repositoryURL"] = external.url
    await project.scope.save()
    if known:
        await project.scope.event("Normal", EventReason.REMOTE_REPLACED, f"the project mirrors {external.url} now; the mirror of {known} is gone")


async def _fetch(project: ProjectScope, external: External, secret: Object | None, now: datetime) -> None:
    """Fetch once and write what came of it at once: the times decide when the next one is due, after a restart too.

    So each fetch costs one write of the status, also one that found nothing, and passes in between write nothing.
    """
    failure: SourceProblem | None = None
    state, shown = MirrorState(""), project.project in project.world.shown
    project.world.shown.discard(project.project)
    try:
        state = await project.world.mirrors.fetch(project.project, remote_of(external, secret))
    except SourceProblem as problem:
        failure = problem
    except FAILURES as error:
        failure = problem_of(error)
    await project.catch_up()
    status, first = project.status, "lastFetchTime" not in project.status
    if failure is None:
        status["lastFetchTime"] = timestamp(now)
        status.pop("fetchFailure", None)
        await _show(project, external, state, all_refs=first or not shown)
    else:
        count = (status.get("fetchFailure") or {}).get("count", 0) + 1
        status["fetchFailure"] = {"count": count, "time": timestamp(now)}
        project.scope.condition(FETCH_FAILED, "True", failure.reason, failure.text)
    status["credentialsVersion"] = secret_version(secret)
    status["nextFetchTime"] = timestamp(project.scope.clock.now() + _wait(external, status, failure))
    await project.scope.save()
    crash_point("fetch.status_written")
    project.answer_request()  # written at the end of the pass: who waits for the answer finds head and conditions beside it
    if failure is None:
        project.world.shown.add(project.project)
        await _tell(project, external, state, first=first)


def _wait(external: External, status: dict[str, Any], failure: SourceProblem | None) -> timedelta:
    spread = random.uniform(-SPREAD, SPREAD)  # noqa: S311 - spreads load, guards nothing
    failures = (status.get("fetchFailure") or {}).get("count", 0)
    return wait_for(
        parse_duration(external.poll_interval), failures=failures, retry_after_s=failure.retry_after_s if failure else None, spread=spread
    )


async def _show(project: ProjectScope, external: External, state: MirrorState, *, all_refs: bool) -> None:
    """Show the refs, and the default branch. While the remote's HEAD names none, the one before stays the one to follow.

    Refs are read again when the fetch changed some, or when what an earlier fetch changed may not have been written: thousands of them cost a second.
    """
    branch = external.default_branch or state.default_branch
    if branch:
        project.status["defaultBranch"] = branch.removeprefix(BRANCHES)[:LONGEST_REF]
    if all_refs or state.changes:
        await show_refs(project)


async def _tell(project: ProjectScope, external: External, state: MirrorState, *, first: bool) -> None:
    """Say in one event what the fetch changed. Whoever dies before has the refs all the same: the event decides nothing."""
    refs = project.status["refs"]
    if first:
        await project.scope.event("Normal", EventReason.MIRRORED, f"branches {refs['branches']}, tags {refs['tags']} of {external.url}")
    elif text := describe_changes(state.changes):
        await project.scope.event("Normal", EventReason.REFS_CHANGED, text)
    if state.skipped and (first or state.changes):
        await project.scope.event("Warning", EventReason.REFS_SKIPPED, f"not mirrored: {describe_names(state.skipped)}")


async def _take_head(project: ProjectScope, *, tidy: bool) -> SourceProblem | None:
    """Export the default branch's tip as the mirror has it; return what keeps it from being the head.

    `tidy`: see to retention and packs too. Once a fetch will do: between two of them a mirror makes no work, and a hundred projects make many passes.
    """
    status = project.status
    if "lastFetchTime" not in status:
        return None
    try:
        branch = f"{BRANCHES}{status['defaultBranch']}" if "defaultBranch" in status else ""
        commit = await _tip(project, branch)
        await export_head(project, branch, commit)
        if tidy:
            await prune_snapshots(project, commit)
            await project.world.repositories.maintain(project.project)
    except SourceProblem as problem:
        if problem.reason == ProjectReason.REMOTE_EMPTY or (status.get("head") or {}).get("ref") != branch:
            await forget_head(project)
        return problem
    except FAILURES as error:
        return problem_of(error)
    return None


async def _tip(project: ProjectScope, branch: str) -> str:
    """Return the commit of the default branch.

    Raises:
        SourceProblem: RemoteEmpty, or RefNotFound.
    """
    refs = project.status["refs"]
    if not refs["branches"] and not refs["tags"]:
        raise SourceProblem(
            ProjectReason.REMOTE_EMPTY, f"{project.status['repositoryURL']} has no commit yet", hint="push one; it is found at the next fetch"
        )
    if not branch:
        raise SourceProblem(
            ProjectReason.REF_NOT_FOUND, "the remote's HEAD names no branch that the remote has", hint="set spec.external.defaultBranch"
        )
    try:
        return (await project.world.repositories.resolve(project.project, branch)).commit
    except RefNotFound as error:
        hint = "correct spec.external.defaultBranch, or push the branch"
        raise SourceProblem(ProjectReason.REF_NOT_FOUND, f"the remote has no branch '{branch.removeprefix(BRANCHES)}'", hint=hint) from error


def _outcome(project: ProjectScope, problem: SourceProblem | None, turn: datetime | None) -> Result:
    """Reduce the fetch and the head to FetchFailed and Ready. A failed fetch is said before a head that cannot be taken: the head is older news.

    `turn`: when to come again for a fetch that is due and had no turn; None when it was had or none is due.
    """
    scope, status = project.scope, project.status
    failed_fetch = "fetchFailure" in status
    if turn and not failed_fetch and "lastFetchTime" not in status:
        raise Waiting(ProjectReason.PROGRESSING, "waiting for its turn to fetch: other remotes have not answered yet", NEXT_TURN)
    if not failed_fetch and problem is None:
        scope.condition(FETCH_FAILED, "False", ProjectReason.SUCCEEDED)
    elif not failed_fetch and problem is not None:
        scope.condition(FETCH_FAILED, "True", problem.reason, problem.text)
    said = next(condition for condition in status["conditions"] if condition["type"] == FETCH_FAILED)
    planned = turn or datetime.fromisoformat(status["nextFetchTime"])
    head = status.get("head")
    if head:
        message = f"{head['ref'].removeprefix(BRANCHES)} is {head['commit'][:12]}"
        stale = f", which may be old: {said['reason']}, see {FETCH_FAILED}" if said["status"] == "True" else ""
        return Done(ProjectReason.SUCCEEDED, message + stale, look_again=planned)
    if said["reason"] == ProjectReason.INVALID_SPEC:
        raise Stalled(ProjectReason.INVALID_SPEC, said["message"])
    raise Waiting(said["reason"], said["message"], max(planned - scope.clock.now(), timedelta()))
