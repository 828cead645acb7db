"""`arena git-server` put together: one of several equal replicas on one content volume.

Git clients and deliveries of git hosts, behind one Service. It needs no leader: what it changes in the store is one annotation, and refs are git's.
"""

import contextlib

from arena.announcer import Announcer
from arena.authorization.entrance import Entrance, InTurn
from arena.authorization.failures import Failures
from arena.authorization.git_access import GitAccess
from arena.authorization.port import Authorizer
from arena.authorization.token_file import TokenFile
from arena.authorization.token_review import TokenReviewAuthorizer
from arena.cluster.checks import ApiServerAnswers
from arena.cluster.content import SharedContent
from arena.cluster.lifetime import REQUESTS_S, Duty, live
from arena.cluster.placing import PlacedAuthorizer
from arena.cluster.probes import Check, Probes, Readiness
from arena.cluster.serving import serve
from arena.cluster.settings import GitServerSettings
from arena.cluster.workspaces import Workspaces
from arena.front_door import FrontDoor
from arena.listening import listen
from foundation.clock import Clock, SystemClock
from gitops.content import ContentVolume
from gitops.processes import check_git
from gitops.repositories import Repositories
from gitops.smart_http import SmartHTTP
from hooks.receiver import Receiver
from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.kube_access import Access
from reconcile.cluster.kube_reviews import KubeReviews


class GitServerProcess:
    """One replica of the git server."""

    def __init__(self, settings: GitServerSettings, access: Access, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._cluster = KubeCluster(access, self._clock)
        self._content = SharedContent(settings.replica.content, self._clock)
        self._reviews = KubeReviews(access, self._clock)

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT; pushes and fetches that have begun are ended first.

        Raises:
            UsageError: a port is taken, or the token file cannot be used.
            GitFailed: git is missing or too old.
            ExceptionGroup: the content volume is unfit (VolumeUnfit), or a part of the process failed in a way that it cannot go on from.
        """
        await check_git()
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._cluster.close)
            stack.push_async_callback(self._reviews.close)
            entrance = Entrance(InTurn(await self._authorizers()), Failures(self._clock))
            checks: dict[str, Check] = {
                "api-server": ApiServerAnswers(self._cluster),
                "content": self._content.look,
            }
            readiness = Readiness(checks, self._clock)
            await live([], self._faces(readiness, self._app(entrance)), readiness, self._clock)

    async def _authorizers(self) -> list[Authorizer]:
        """Return who knows tokens: the file first, which costs nothing, then the API server."""
        known: list[Authorizer] = []
        if self._settings.token_file is not None:
            tokens = TokenFile(self._settings.token_file, self._clock)
            await tokens.read()
            known.append(tokens)
        return [*known, TokenReviewAuthorizer(self._reviews, self._clock)]

    def _faces(self, readiness: Readiness, app: FrontDoor) -> list[Duty]:
        replica, hint = self._settings.replica, "choose another port with --port or --probe-port"
        probing, serving = (listen(replica.host, port, hint=hint) for port in (replica.probe_port, self._settings.port))

        async def serve_git() -> None:
            await self._content.fit()
            await serve(app, serving, drain_s=REQUESTS_S)

        return [lambda: serve(Probes(readiness), probing, drain_s=1), self._content.keep, serve_git]

    def _app(self, entrance: Entrance) -> FrontDoor:
        workspaces = Workspaces(self._settings.replica.content, self._cluster, self._clock)
        repositories = Repositories(ContentVolume(self._settings.replica.content, workspaces.of), self._clock)
        authorize = PlacedAuthorizer(GitAccess(self._cluster, entrance), workspaces)
        git = SmartHTTP(repositories, authorize=authorize, on_change=Announcer(self._cluster).announce)
        return FrontDoor(git=git, hooks=Receiver(self._cluster, self._clock))
