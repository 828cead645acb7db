"""Who may do what in local mode: one generated token opens everything, and nothing opens without it.

Git sends the token as password (any user name), everything else as a bearer token. Compared in constant time, never logged.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping

from gitops.content import ProjectKey
from gitops.errors import Forbidden, Unauthenticated, UnknownProject
from gitops.push_policy import PushPolicy
from gitops.serving import Access
from reconcile.cluster.port import ARENA_PROJECT, Cluster
from reconcile.errors import NotFound
from reconcile.kinds.names import ALLOW_FORCE
from reconcile.kinds.project import ArenaProjectSpec
from reconcile.project.identity import answers, remote_url
from reconcile.project.limits import snapshot_limits


class LocalAccess:
    """Checks requests against the installation's token."""

    def __init__(self, cluster: Cluster, token: str) -> None:
        self._cluster = cluster
        self._token = token

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Say whether a request carries the token as bearer token.

        Not as a password: a browser that was once given one sends it along with whatever any page makes it ask for.
        """
        scheme, value = _credentials(headers)
        return scheme == "bearer" and self._is_token(value)

    def _is_token(self, offered: str) -> bool:
        return bool(offered) and hmac.compare_digest(offered.encode(), self._token.encode())

    async def authorize_git(self, headers: Mapping[str, str], namespace: str, project: str, *, write: bool, source: str = "") -> Access:
        """Say what a git client may do with a project's repository. A mirror is read like a hosted one: whoever may see its runs may see its source.

        Raises:
            Unauthenticated: no token, or another one.
            UnknownProject: no such project, or nothing of its remote has been fetched.
            Forbidden: the project takes no push: it is being deleted, or is a mirror.
        """
        scheme, value = _credentials(headers)
        if not (self.admits(headers) or (scheme == "basic" and self._is_token(_password(value)))):
            raise Unauthenticated(
                "cannot log in: the password is not this installation's token", hint="`arena up` prints the line that lets git find it"
            )
        try:
            found = await self._cluster.get(ARENA_PROJECT, namespace, project)
        except NotFound as error:
            raise UnknownProject(
                f"cannot find project '{project}' in namespace '{namespace}'", hint="apply an ArenaProject of that name first"
            ) from error
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


def _credentials(headers: Mapping[str, str]) -> tuple[str, str]:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    return scheme.lower(), value.strip()


def _password(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode("utf-8", "replace").partition(":")[2]
    except (binascii.Error, ValueError):
        return ""
