"""A retained repository becomes the repository of a new project of its name, when the project's annotation asks for it.

Owns when that may happen and how it is answered; what a retained repository is belongs to `gitops`. Source: resources.md, "reclaimPolicy".
"""

import asyncio

from gitops.content import ProjectKey
from gitops.errors import RepositoryExists, UnsafeName
from gitops.repositories import Repositories
from gitops.retained import object_format
from reconcile.errors import Stalled
from reconcile.kinds.names import ADOPT, request_of
from reconcile.kinds.reasons import EventReason, ProjectReason
from reconcile.runtime.reconciler import Pass


async def adopt_retained(scope: Pass, project: ProjectKey, repositories: Repositories, wanted_format: str) -> None:
    """Move the retained repository that the annotation names to the project's place, unless the project has commits of its own.

    The answer is written before the move, so that a pass after a kill can tell a repository that was moved from a uid that never had one.

    Raises:
        Stalled: AdoptFailed: there is nothing to move, or what is there is of another object format.
    """
    uid = request_of(scope.obj["metadata"].get("annotations"), ADOPT)
    if not uid:
        return
    answered = scope.status.get("lastHandledAdopt") == uid
    if await repositories.exists(project) and await repositories.head(project) is not None:
        if not answered:
            await _refuse(scope, uid)
        return
    try:
        retained = repositories.volume.retained(project, uid)
    except UnsafeName as error:
        raise Stalled(ProjectReason.ADOPT_FAILED, error.message) from error
    if not await asyncio.to_thread(retained.is_dir):
        if answered:
            return
        raise Stalled(ProjectReason.ADOPT_FAILED, f"no repository of '{project.name}' is retained under uid '{uid}'")
    found_format = await asyncio.to_thread(object_format, retained)
    if found_format != wanted_format:
        raise Stalled(
            ProjectReason.ADOPT_FAILED,
            f"the repository retained under uid '{uid}' is of object format {found_format}; spec.hosted.objectFormat is {wanted_format}",
        )
    scope.status["lastHandledAdopt"] = uid
    await scope.save()
    try:
        await repositories.adopt(project, uid)
    except RepositoryExists:  # the first push came in between
        await _refuse(scope, uid)
        return
    await scope.event("Normal", EventReason.ADOPTED, f"the repository retained under uid '{uid}' is this project's now")


async def _refuse(scope: Pass, uid: str) -> None:
    scope.status["lastHandledAdopt"] = uid
    await scope.event(
        "Warning", EventReason.ADOPT_REFUSED, f"the project has commits of its own, so the repository retained under uid '{uid}' stays where it is"
    )
