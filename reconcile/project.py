"""ArenaProject: a repository that is there, seeded once, its head exported as a snapshot.

Owns the order of a project's steps. What a repository and a snapshot are belongs to `gitops`.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from foundation.crash import crash_point
from gitops.content import ContentVolume, ProjectKey, is_full_commit
from gitops.errors import SeedFailed, SnapshotUnexportable, StorageFailed
from gitops.repositories import Repositories
from gitops.snapshots import Snapshots
from reconcile.adoption import adopt_retained
from reconcile.cluster.port import ARENA_PROJECT, ARENA_RUN, CONFIG_MAP, ResourceKind
from reconcile.errors import NotFound, Stalled, Waiting
from reconcile.kinds.names import PROJECT_FINALIZER, REQUESTED_SYNC, TERMINAL_PHASES, request_of
from reconcile.kinds.not_supported import unsupported_fields
from reconcile.kinds.project import ArenaProjectSpec, Hosted, SeedConfigMap
from reconcile.kinds.reasons import EventReason, ProjectReason
from reconcile.run.source import snapshot_limits
from reconcile.runtime.conditions import timestamp
from reconcile.runtime.reconciler import Done, Pass, Progressing, Result, Silent

LOOK_AGAIN = timedelta(seconds=30)
"""A hosted main is read again this often: a crash between a ref's update and its announcement loses nothing."""

DEFAULT_BRANCH = "main"
SEED_AUTHOR = "Arena <arena@localhost>"


class ProjectReconciler:
    """Drive one ArenaProject: create, seed, export the head, prune."""

    kind: ResourceKind = ARENA_PROJECT

    def __init__(self, repositories: Repositories, snapshots: Snapshots, volume: ContentVolume, clone_url: str) -> None:
        """`clone_url` is the address that `/<namespace>/<project>.git` is appended to."""
        self._repositories = repositories
        self._snapshots = snapshots
        self._volume = volume
        self._clone_url = clone_url

    async def reconcile(self, scope: Pass) -> Result:
        """Do one pass over a project."""
        project = ProjectKey(scope.key.namespace, scope.key.name)
        spec = ArenaProjectSpec.model_validate(scope.obj["spec"])
        if scope.deleting:
            return await self._remove(scope, project, spec)
        fields = unsupported_fields("ArenaProject", scope.obj["spec"])
        if fields or spec.hosted is None:
            raise Stalled(ProjectReason.NOT_SUPPORTED, f"not supported yet: {', '.join(fields)}")
        await scope.add_finalizer(PROJECT_FINALIZER)
        self._describe(scope, project)
        if spec.suspend:
            return self._suspended(scope)
        try:
            return await self._sync(scope, project, spec, spec.hosted)
        except SnapshotUnexportable as error:
            raise Stalled(ProjectReason.SNAPSHOT_UNEXPORTABLE, error.message, hint=error.hint) from error
        except StorageFailed as error:
            raise Waiting(ProjectReason.STORAGE_FAILED, error.message, LOOK_AGAIN, hint=error.hint) from error

    def _describe(self, scope: Pass, project: ProjectKey) -> None:
        scope.status["repositoryURL"] = f"{self._clone_url}/{project.namespace}/{project.name}.git"
        scope.status["defaultBranch"] = DEFAULT_BRANCH
        scope.status.setdefault("display", {})["kind"] = "hosted"

    def _suspended(self, scope: Pass) -> Result:
        """A suspended project keeps what it last exported, so its runs go on; it looks at nothing new."""
        if scope.status.get("head"):
            return Done(ProjectReason.SUSPENDED, "suspended: the head is not looked at until spec.suspend is false")
        raise Stalled(ProjectReason.SUSPENDED, "suspended before its first look at the repository; set spec.suspend to false")

    async def _sync(self, scope: Pass, project: ProjectKey, spec: ArenaProjectSpec, hosted: Hosted) -> Result:
        await adopt_retained(scope, project, self._repositories, hosted.object_format)
        await self._repositories.create(project, object_format=hosted.object_format)
        head = await self._repositories.head(project)
        if head is None and hosted.seed is not None:
            head = await self._seed(scope, project, hosted.seed.config_map)
        requested = request_of(scope.obj["metadata"].get("annotations"), REQUESTED_SYNC)
        if requested:
            scope.status["lastHandledSync"] = requested
        if head is None:
            self._forget_head(scope)
            raise Waiting(
                ProjectReason.REPOSITORY_EMPTY, f"no commit yet: git push {scope.status['repositoryURL']} HEAD:{DEFAULT_BRANCH}", LOOK_AGAIN
            )
        await self._export_head(scope, project, spec, head)
        await self._prune(scope, project, spec)
        await self._repositories.maintain(project)
        return Done(ProjectReason.SUCCEEDED, f"{DEFAULT_BRANCH} is {head[:12]}", look_again=LOOK_AGAIN)

    async def _seed(self, scope: Pass, project: ProjectKey, source: SeedConfigMap) -> str:
        try:
            config_map = await scope.cluster.get(CONFIG_MAP, project.namespace, source.name)
        except NotFound as error:
            raise Waiting(
                ProjectReason.SEED_FAILED,
                f"ConfigMap '{source.name}' with the first commit does not exist in namespace '{project.namespace}'",
                LOOK_AGAIN,
            ) from error
        try:
            commit = await self._repositories.seed(project, seed_files(config_map, source), author=SEED_AUTHOR)
        except SeedFailed as error:
            raise Stalled(ProjectReason.SEED_FAILED, error.message, hint=error.hint) from error
        await scope.event("Normal", EventReason.SEEDED, f"first commit {commit[:12]} made from ConfigMap '{source.name}'")
        return commit

    async def _export_head(self, scope: Pass, project: ProjectKey, spec: ArenaProjectSpec, commit: str) -> None:
        snapshot = await self._snapshots.export(project, commit, snapshot_limits(spec.snapshots))
        if (scope.status.get("head") or {}).get("commit") == commit:
            return
        await self._snapshots.set_head(project, commit)
        crash_point("head.written")
        summary, refs = await self._repositories.describe(project, commit), await self._repositories.refs(project)
        scope.status["head"] = {
            "commit": commit,
            "ref": f"refs/heads/{DEFAULT_BRANCH}",
            "contentPath": snapshot.content_path,
            "author": summary.author,
            "message": summary.message,
            "time": timestamp(summary.time),
        }
        scope.status["display"]["head"] = commit[:12]
        scope.status["lastFetchTime"] = timestamp(scope.clock.now())
        scope.status["refs"] = {"branches": refs.branches, "tags": refs.tags, "newest": [{"name": name, "commit": tip} for name, tip in refs.newest]}
        for path in snapshot.lfs_pointers[:10]:
            await scope.event("Warning", EventReason.LFS_POINTER, f"'{path}' is a Git LFS pointer and was exported as it is")

    def _forget_head(self, scope: Pass) -> None:
        scope.status.pop("head", None)
        scope.status["display"].pop("head", None)

    async def _prune(self, scope: Pass, project: ProjectKey, spec: ArenaProjectSpec) -> None:
        async def needed() -> set[str]:
            head = await self._repositories.head(project)
            runs = (await scope.cluster.list(ARENA_RUN, project.namespace)).items
            return {commit for run in runs if (commit := _named_commit(run, project))} | ({head} if head else set())

        usage = await self._snapshots.prune(project, needed=needed, retain=spec.snapshots.retain)
        scope.status["snapshots"] = {"count": usage.count, "bytes": usage.bytes}

    async def _remove(self, scope: Pass, project: ProjectKey, spec: ArenaProjectSpec) -> Result:
        """Let a deleted project go once no pinned run needs it: its sources go, its repository is kept aside or removed."""
        runs = (await scope.cluster.list(ARENA_RUN, project.namespace)).items
        pinned = sorted(run["metadata"]["name"] for run in runs if _needs_source(run, project))
        if pinned:
            return Progressing(
                ProjectReason.PROJECT_IN_USE, f"waiting for runs of this project to end: {', '.join(pinned[:10])}", look_again=LOOK_AGAIN
            )
        if await self._repositories.exists(project):
            if spec.hosted is not None and spec.hosted.reclaim_policy == "Retain":
                await self._repositories.retain(project, scope.uid)
            else:
                await self._repositories.remove(project)
        crash_point("remove.repository_gone")
        await self._snapshots.remove_all(project)
        crash_point("remove.snapshots_gone")
        await scope.remove_finalizer(PROJECT_FINALIZER)
        return Silent()


def _needs_source(run: Mapping[str, Any], project: ProjectKey) -> bool:
    """Say whether a run has pinned a commit of the project and has not ended."""
    status = run.get("status") or {}
    of_project = run["spec"]["template"]["sourceRef"]["name"] == project.name
    return of_project and "source" in status and status.get("phase") not in TERMINAL_PHASES


def _named_commit(run: Mapping[str, Any], project: ProjectKey) -> str:
    """Return the commit whose files a run that has not ended needs: the pinned one, or the SHA that it will pin; "" when it names none yet."""
    if _needs_source(run, project):
        return str(run["status"]["source"]["commit"])
    template, phase = run["spec"]["template"], (run.get("status") or {}).get("phase")
    waits = template["sourceRef"]["name"] == project.name and phase not in TERMINAL_PHASES
    return ref if waits and is_full_commit(ref := template.get("ref") or "") else ""


def seed_files(config_map: Mapping[str, Any], source: SeedConfigMap) -> dict[str, bytes]:
    """Return the first commit's files by path.

    Raises:
        Stalled: an item names a key that the ConfigMap lacks, or there is no key at all.
    """
    data: dict[str, str] = config_map.get("data") or {}
    missing = [item.key for item in source.items if item.key not in data]
    if missing or not data:
        cause = f"has no key '{missing[0]}'" if missing else "is empty"
        raise Stalled(ProjectReason.SEED_FAILED, f"ConfigMap '{source.name}' {cause}")
    if source.items:
        return {item.path: data[item.key].encode() for item in source.items}
    return {key.replace("__", "/"): text.encode() for key, text in data.items()}
