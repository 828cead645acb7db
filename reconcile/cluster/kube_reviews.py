"""The adapter of the Reviews port to a Kubernetes API server.

Has a connection of its own: what strangers make it ask never waits in front of our own reads and writes, nor behind them.
"""

import json

from foundation.clock import Clock
from reconcile.cluster.kube_access import Access
from reconcile.cluster.kube_errors import About
from reconcile.cluster.kube_session import Request, Session
from reconcile.cluster.kube_urls import collection_path
from reconcile.cluster.port import Object, ResourceKind


class KubeReviews:
    """`Reviews` of one API server, at most 16 at once. Connects at the first question; use it from one event loop, and close it."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._session = Session(access, clock)

    async def close(self) -> None:
        """End all connections. Closing twice is fine; every other call then raises StoreUnavailable."""
        await self._session.close()

    async def review(self, kind: ResourceKind, spec: Object) -> Object:
        """Return the status that the server gives (see `Reviews.review`)."""
        body = json.dumps({"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}).encode()
        answer = await self._session.json(Request("POST", collection_path(kind, None), About("create", kind, None), body=body))
        status = answer.get("status") if isinstance(answer, dict) else None
        return status if isinstance(status, dict) else {}
