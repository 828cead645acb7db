"""What the git server is given: who may fetch and push which project, and the rules that pushes to it meet.

The caller's right is decided before anybody looks at the project, so a stranger learns nothing of what exists, from words or from time.
"""

from collections.abc import Mapping
from typing import Any

import structlog

from arena.authorization import errors
from arena.authorization.entrance import Entrance
from arena.authorization.port import fetch, push
from gitops.content import ProjectKey
from gitops.errors import AuthorizerUnavailable, Forbidden, TooManyFailures, Unauthenticated, UnknownProject
from gitops.push_policy import PushPolicy
from gitops.serving import Access
from reconcile.cluster.port import ARENA_PROJECT, Cluster
from reconcile.errors import ClusterError, NotFound
from reconcile.kinds.names import ALLOW_FORCE
from reconcile.kinds.project import ArenaProjectSpec
from reconcile.project.identity import answers, remote_url
from reconcile.project.limits import snapshot_limits

_log = structlog.get_logger(__name__)


class GitAccess:
    """The `gitops.serving.Authorizer` of both modes: `SmartHTTP(repositories, authorize=GitAccess(cluster, entrance), …)`."""

    def __init__(self, cluster: Cluster, entrance: Entrance) -> None:
        self._cluster = cluster
        self._entrance = entrance

    async def __call__(self, headers: Mapping[str, str], namespace: str, project: str, *, write: bool, source: str) -> Access:
        """Say what a git client may do with a project's repository. A mirror is read like a hosted one: whoever may see its runs may see its source.

        Raises:
            Unauthenticated: no token, or none that is known.
            Forbidden: the caller may not do this; or the project takes no push: it is being deleted, or is a mirror.
            UnknownProject: the caller may, and there is no such project, or nothing of its remote has been fetched.
            TooManyFailures: too many logins from `source` have failed.
            AuthorizerUnavailable: neither the caller's right nor the project can be looked up now.
        """
        await self._admit(headers, namespace, project, write=write, source=source)
        try:
            found = await self._cluster.get(ARENA_PROJECT, namespace, project)
        except NotFound as error:
            raise UnknownProject(
                f"cannot find project '{project}' in namespace '{namespace}'", hint="apply an ArenaProject of that name first"
            ) from error
        except ClusterError as error:
            _log.error("project not looked up", namespace=namespace, project=project, cause=error.message)
            raise AuthorizerUnavailable(f"cannot look up project '{project}': the store does not answer", hint="try again soon") from error
        return _access(found, namespace, project, write=write)

    async def _admit(self, headers: Mapping[str, str], namespace: str, project: str, *, write: bool, source: str) -> None:
        action = push(namespace, project) if write else fetch(namespace, project)
        try:
            await self._entrance.admit(headers, source, action)
        except errors.NotAuthenticated as error:
            raise Unauthenticated(error.message, hint=error.hint) from error
        except errors.NotAllowed as error:
            raise Forbidden(error.message, hint=error.hint) from error
        except errors.TooManyFailures as error:
            raise TooManyFailures(error.message, retry_after_s=error.retry_after_s, hint=error.hint) from error
        except errors.DecisionUnavailable as error:
            raise AuthorizerUnavailable("cannot check the token: whoever decides does not answer", hint="try again soon") from error


def _access(found: Mapping[str, Any], namespace: str, project: str, *, write: bool) -> Access:
    """Return what a project lets its callers do."""
    if write and "deletionTimestamp" in found["metadata"]:
        raise Forbidden(f"cannot push to project '{project}': it is being deleted")
    remote = remote_url(found)
    if write and remote:
        raise Forbidden(f"cannot push to project '{project}': it mirrors {remote}", hint=f"push there; `arena sync {project}` fetches it at once")
    if not answers(found):
        raise UnknownProject(f"cannot read project '{project}': {remote} has not been fetched", hint=f"`arena describe ap {project}` says why")
    spec = ArenaProjectSpec.model_validate(found["spec"])
    force = (found["metadata"].get("annotations") or {}).get(ALLOW_FORCE) == "true"
    remedy = f"merge instead, or annotate the project with {ALLOW_FORCE}=true"
    return Access(ProjectKey(namespace, project), PushPolicy(allow_force=force, limits=snapshot_limits(spec.snapshots), force_remedy=remedy))
