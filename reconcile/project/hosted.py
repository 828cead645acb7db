"""A hosted repository: made, adopted or seeded once, and then only read.

What a repository is belongs to `gitops`; what becomes of its head is `head.py`'s.
"""

from collections.abc import Mapping
from typing import Any

from gitops.errors import SeedFailed, SnapshotUnexportable
from reconcile.adoption import adopt_retained
from reconcile.cluster.port import CONFIG_MAP
from reconcile.errors import NotFound, Stalled, Waiting
from reconcile.kinds.project import Hosted, SeedConfigMap
from reconcile.kinds.reasons import EventReason, ProjectReason
from reconcile.project.head import export_head, forget_head, prune_snapshots, show_refs, suspended
from reconcile.project.identity import BRANCHES
from reconcile.project.scope import LOOK_AGAIN, ProjectScope
from reconcile.runtime.conditions import timestamp
from reconcile.runtime.reconciler import Done, Result

DEFAULT_BRANCH = "main"
SEED_AUTHOR = "Arena <arena@localhost>"


async def look_at_hosted(project: ProjectScope, hosted: Hosted) -> Result:
    """See to it that the repository is there, with its seed if it has one, and that main is exported.

    Raises:
        Stalled, Waiting: the seed cannot be made, nothing can be adopted, or main cannot be exported.
    """
    project.status["repositoryURL"] = f"{project.world.clone_url}/{project.project.namespace}/{project.project.name}.git"
    project.status["defaultBranch"] = DEFAULT_BRANCH
    project.status.setdefault("display", {})["kind"] = "hosted"
    if project.spec.suspend:
        return suspended(project)
    try:
        return await _sync(project, hosted)
    except SnapshotUnexportable as error:
        raise Stalled(ProjectReason.SNAPSHOT_UNEXPORTABLE, error.message, hint=error.hint) from error


async def _sync(project: ProjectScope, hosted: Hosted) -> Result:
    repositories = project.world.repositories
    await adopt_retained(project.scope, project.project, repositories, hosted.object_format)
    await repositories.create(project.project, object_format=hosted.object_format)
    head = await repositories.head(project.project)
    project.answer_request()
    if head is None and hosted.seed is not None:
        head = await _seed(project, hosted.seed.config_map)
    if head is None:
        await forget_head(project)
        raise Waiting(ProjectReason.REPOSITORY_EMPTY, f"no commit yet: git push {project.status['repositoryURL']} HEAD:{DEFAULT_BRANCH}", LOOK_AGAIN)
    if await export_head(project, f"{BRANCHES}{DEFAULT_BRANCH}", head):
        project.status["lastFetchTime"] = timestamp(project.scope.clock.now())
        await show_refs(project)
    await prune_snapshots(project, head)
    await repositories.maintain(project.project)
    return Done(ProjectReason.SUCCEEDED, f"{DEFAULT_BRANCH} is {head[:12]}", look_again=LOOK_AGAIN)


async def _seed(project: ProjectScope, source: SeedConfigMap) -> str:
    scope, key = project.scope, project.project
    try:
        config_map = await scope.cluster.get(CONFIG_MAP, key.namespace, source.name)
    except NotFound as error:
        raise Waiting(
            ProjectReason.SEED_FAILED,
            f"ConfigMap '{source.name}' with the first commit does not exist in namespace '{key.namespace}'",
            LOOK_AGAIN,
        ) from error
    try:
        commit = await project.world.repositories.seed(key, seed_files(config_map, source), author=SEED_AUTHOR)
    except SeedFailed as error:
        raise Stalled(ProjectReason.SEED_FAILED, error.message, hint=error.hint) from error
    await scope.event("Normal", EventReason.SEEDED, f"first commit {commit[:12]} made from ConfigMap '{source.name}'")
    return commit


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
