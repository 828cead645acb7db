"""How new the mirror must be before a run resolves its ref: an external project is fetched first, by the project controller, at the run's request.

The run asks by the requested-sync annotation, as a webhook does, and remembers with what. So branches and tags have one fetcher, ten runs that start
at once are one fetch, and the project's status has the answer. Only a ref outside of branches and tags (`refs/pull/7/head`), which no poll brings, is
fetched from here. Source: resources.md, "ArenaProject".
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from gitops.content import is_full_commit
from gitops.errors import RefNotFound, UnknownProject
from reconcile.cluster.port import ObjectKey
from reconcile.errors import Waiting
from reconcile.kinds.names import REQUESTED_SYNC, request_of
from reconcile.kinds.project import ArenaProjectSpec, External
from reconcile.kinds.reasons import RunReason
from reconcile.project.identity import BRANCHES, remote_url
from reconcile.project.problems import FAILURES, SourceProblem, problem_of
from reconcile.project.remote import find_secret, remote_of
from reconcile.project.turns import NEXT_TURN
from reconcile.run.scope import RunScope
from reconcile.runtime.conditions import timestamp

FRESH = timedelta(seconds=30)
"""A good fetch that began so lately need not be repeated for a branch or tag that the mirror has."""
RETRY = timedelta(seconds=30)


async def bring_up_to_date(run: RunScope, project: Mapping[str, Any], ref: str) -> str:
    """See to it that the mirror is new enough to resolve `ref`; return "" when it is, else why the mirror answers with what it has.

    Raises:
        Waiting: the fetch that the run asked for is not done.
    """
    known = await _known(run, ref)
    if not remote_url(project) or (known and is_full_commit(ref)):
        return ""
    status = project["status"]
    if project["spec"].get("suspend"):
        return f"the project is suspended, and was fetched last at {status.get('lastFetchTime')}"
    name = known or ref
    if name.startswith("refs/") and not name.startswith((BRANCHES, "refs/tags/")):
        return await _fetch_by_name(run, project, name)
    if known and run.clock.now() - datetime.fromisoformat(status["lastFetchTime"]) < FRESH:
        return ""
    await _ask(run, project)
    return _stale(status) if "fetchFailure" in status else ""


async def _known(run: RunScope, ref: str) -> str:
    """Return the full name, or the SHA, of what the mirror has under this spelling; "" when it has nothing."""
    try:
        return (await run.world.repositories.resolve(run.project, ref)).ref
    except (RefNotFound, UnknownProject):
        return ref if is_full_commit(ref) and await _is_kept(run, ref) else ""


async def _is_kept(run: RunScope, commit: str) -> bool:
    try:
        return (await run.world.repositories.pins(run.project)).get(run.uid) == commit
    except UnknownProject:
        return False


async def _ask(run: RunScope, project: Mapping[str, Any]) -> None:
    """Ask for a fetch, and wait until one is done that began later. Who finds its request undone, as applying an old manifest does, asks again.

    `project` must have been read in this pass: an older copy knows nothing of the request, and looks as if none was open.
    """
    latest, handled = request_of(project["metadata"].get("annotations"), REQUESTED_SYNC), project["status"].get("lastHandledSync", "")
    if _is_answered(run.status, project["status"], latest):
        return
    if "fetchRequest" not in run.status or latest in ("", handled):
        asked = timestamp(run.clock.now())
        run.status["fetchRequest"] = await run.world.sync_requests.request(ObjectKey(run.namespace, run.project.name), "run")
        run.status["fetchRequestTime"] = asked
        await run.scope.save()
    raise _progressing(run, f"waiting for a fetch of {remote_url(project)}", RETRY)


def _progressing(run: RunScope, message: str, after: timedelta) -> Waiting:
    run.scope.condition("SourceValid", "Unknown", RunReason.PROGRESSING, message)
    return Waiting(RunReason.PROGRESSING, message, after)


def _is_answered(run: Mapping[str, Any], project: Mapping[str, Any], latest: str) -> bool:
    """Say whether a fetch that began after the run asked is done, by the two statuses; `latest` is the request that the project bears now.

    Not by the run's own request alone: where others ask faster than a fetch takes, the one that is answered is always an overwritten one's. Times are
    whole seconds and sort as text; within one of them the newest request tells before from after.
    """
    if "fetchRequest" not in run:
        return False
    asked, handled = str(run.get("fetchRequestTime", "")), str(project.get("lastHandledSync", ""))
    began = max(str(project.get("lastFetchTime", "")), str((project.get("fetchFailure") or {}).get("time", "")))
    return handled == run["fetchRequest"] or began > asked or (began == asked and handled == latest)


async def _fetch_by_name(run: RunScope, project: Mapping[str, Any], ref: str) -> str:
    external = ArenaProjectSpec.model_validate(project["spec"]).external
    if external is None:
        return ""
    with run.world.turns.take(run.namespace) as turn:
        if not turn:
            raise _progressing(run, f"waiting for its turn to fetch {ref}: other remotes have not answered yet", NEXT_TURN)
        return await _fetched_by_name(run, external, ref)


async def _fetched_by_name(run: RunScope, external: External, ref: str) -> str:
    try:
        secret = await find_secret(run.cluster, run.namespace, external)
        await run.world.mirrors.fetch_ref(run.project, remote_of(external, secret), ref)
    except SourceProblem as error:
        return _said(error)
    except FAILURES as error:
        return _said(problem_of(error))
    return ""


def _said(problem: SourceProblem) -> str:
    return f"{problem.reason}: {problem.text}"


def _stale(status: Mapping[str, Any]) -> str:
    failed: Mapping[str, Any] = next((c for c in status.get("conditions", []) if c["type"] == "FetchFailed"), {})
    return f"{failed.get('reason')}: {failed.get('message')}; fetched last at {status.get('lastFetchTime', 'no time')}"
