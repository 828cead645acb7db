"""Reading every object of a kind without holding all of them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from reconcile.cluster.port import Cluster, Object, ResourceKind


async def every(cluster: Cluster, kind: ResourceKind, namespace: str | None = None) -> AsyncGenerator[Object, None]:
    """Yield the objects of one namespace (None: of all) as the store has them, a page at a time.

    Raises:
        Gone: it took so long that the listing cannot go on; begin again.
    """
    async with aclosing(cluster.pages(kind, namespace)) as pages:
        async for page in pages:
            for obj in page.items:
                yield obj
