"""The content volume: repositories, keep-refs, snapshots, and what deleted projects and runs left on it."""

from collections.abc import AsyncIterator, Iterator

from arena.cli.screen import counted
from arena.doctor.finding import Finding, bad, info, ok
from arena.doctor.survey import Survey, mebibytes, size_of
from gitops.content import ProjectKey
from gitops.errors import GitError, GitFailed, StorageFailed
from gitops.locks import LOCK_NAME, acquire
from gitops.processes import GitCommand, run_git
from gitops.repositories import Repositories
from gitops.retained import list_retained
from gitops.snapshots import Snapshots
from reconcile.cluster.port import ARENA_RUN, Object
from reconcile.kinds.conditions import ConditionType
from reconcile.runtime.conditions import find_condition

SNAPSHOTS_READ = 3
"""So many of a project's newest snapshots are read unless all are."""

FSCK_S = 120.0
FSCK_OBJECTS_S = 1800.0
_TRASH = {
    "removed runs": "*/*/arena/runs/.trash",
    "removed repositories": "*/*/arena/repos/.trash-*",
    "removed snapshots": "*/*/arena/sources/*/.arena/versions/.trash",
    "snapshots that did not verify": "*/*/arena/sources/*/.arena/versions/.quarantine",
}


async def examine_content(survey: Survey) -> AsyncIterator[Finding]:
    """Look at every project's repository and snapshots, and at what is left of others."""
    there = _repositories(survey)
    projects = survey.projects()
    repositories = Repositories(survey.volume, survey.clock)
    for key in sorted(there, key=str):
        if key not in projects:
            path = survey.volume.repository(key)
            yield bad(f"repository {key}", "no project of this name exists", f"create ArenaProject {key.name}, which takes it, or remove {path}")
            continue
        yield await _repository(survey, key, again=_again(projects[key]))
        failed = find_condition((projects[key].get("status") or {}).get("conditions") or (), ConditionType.FETCH_FAILED)
        if failed is not None and failed["status"] == "True":
            yield bad(f"mirror {key}", f"its last fetch failed: {failed['message']}")
        for finding in await _keep_refs(survey, repositories, key):
            yield finding
        yield await _snapshots(survey, key)
    for key in sorted(projects.keys() - there, key=str):
        if (projects[key].get("status") or {}).get("head") and not survey.volume.repository(key).exists():
            yield bad(f"repository {key}", "it is gone", _again(projects[key]))
    for finding in _left_aside(survey):
        yield finding


def _repositories(survey: Survey) -> set[ProjectKey]:
    paths = survey.state.content.glob("*/*/arena/repos/*.git")
    return {ProjectKey(path.parts[-4], path.stem) for path in paths if not path.name.startswith(".")}


def _again(project: Object) -> str:
    """Return what brings commits back: a mirror's are at its remote, a hosted repository's are in clones and backups."""
    if "external" in project["spec"]:
        return f"a running server fetches a mirror again that is not there; `arena sync {project['metadata']['name']}` asks for it at once"
    return f"push the commits again from a clone, or restore a backup: {(project.get('status') or {}).get('repositoryURL', '')}"


async def _repository(survey: Survey, key: ProjectKey, *, again: str) -> Finding:
    """Have git check that every object which a ref needs is there, with the repository held against repacking meanwhile."""
    path, thing = survey.volume.repository(key), f"repository {key}"
    words = ["fsck", "--no-dangling", "--no-progress", *([] if survey.verify_objects else ["--connectivity-only"])]
    try:
        lock = await acquire(path, survey.clock, exclusive=False, wait_s=FSCK_S) if (path / LOCK_NAME).exists() else None
        try:
            await run_git(GitCommand(words, repository=path), timeout_s=FSCK_OBJECTS_S if survey.verify_objects else FSCK_S)
        finally:
            if lock is not None:
                lock.close()
    except GitFailed as error:
        cause = (error.stderr.splitlines() or [error.message])[0]
        return bad(thing, cause, f"{again}; git -C {path} fsck says more")
    except (GitError, OSError) as error:
        return bad(thing, str(error), "look again")
    return ok(thing)


async def _keep_refs(survey: Survey, repositories: Repositories, key: ProjectKey) -> list[Finding]:
    try:
        pins = await repositories.pins(key)
    except GitError as error:
        return [bad(f"keep-refs of {key}", error.message, error.hint)]
    gone = sorted(pins.keys() - survey.uids(ARENA_RUN))
    cause = f"{counted(len(gone), 'ref')} of runs that are gone: {', '.join(gone[:3])}"
    return [bad(f"keep-refs of {key}", cause, "a running server removes them after an hour")] if gone else []


async def _snapshots(survey: Survey, key: ProjectKey) -> Finding:
    versions = survey.volume.versions(key)
    everything = survey.verify_snapshots
    thing = f"snapshots of {key}" if everything else f"snapshots of {key} (the newest {SNAPSHOTS_READ}; --verify-snapshots reads all)"
    try:
        unsound = await Snapshots(survey.volume, survey.clock).unsound(key, newest=None if everything else SNAPSHOTS_READ)
    except StorageFailed as error:
        return bad(thing, error.message, error.hint)
    if not unsound:
        return ok(thing)
    first = list(unsound.items())[:5]
    cause = f"not what was exported: {', '.join(f'{commit[:12]} ({fault})' for commit, fault in first)}"
    remedy = f"find out who wrote there, then remove {' '.join(str(versions / commit) for commit, _ in first)}: what is needed is exported again"
    return bad(thing, cause, remedy)


def _left_aside(survey: Survey) -> Iterator[Finding]:
    for namespace in sorted(survey.state.content.glob("*/*/arena/repos/.retained")):
        for retained in list_retained(survey.volume, namespace.parts[-4]):
            yield info(
                f"retained repository of {retained.project}",
                f"{mebibytes(retained.bytes)}, last written {retained.used:%Y-%m-%d}",
                f"arena project adopt {retained.project.name} --uid {retained.uid} -n {retained.project.namespace}",
            )
    for what, pattern in _TRASH.items():
        found = list(survey.state.content.glob(pattern))
        size = sum(size_of(path) for path in found)
        if size:
            yield info(what, f"{mebibytes(size)} in {', '.join(str(path) for path in found[:3])}")
