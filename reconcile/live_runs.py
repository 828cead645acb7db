"""The runs of a project that have not ended, read afresh: what a snapshot is kept for, and what a deleted project waits for.

Owns how they are selected in the store. Must not know what is done about them.
"""

from reconcile.cluster.port import ARENA_RUN, RUN_PHASE, RUN_PROJECT, Cluster, Object, ObjectKey
from reconcile.cluster.selectors import Requirement, Selector
from reconcile.kinds.names import TERMINAL_PHASES


async def live_runs(cluster: Cluster, project: ObjectKey) -> list[Object]:
    """Return the project's runs without a terminal phase, whole and as the store has them now, at the price of those alone.

    Never from memory: a run that has just pinned a commit must be seen by whoever removes snapshots, or the repository (survival.md, step 1).
    """
    selector = Selector((Requirement(RUN_PROJECT, "in", frozenset((project.name,))), Requirement(RUN_PHASE, "notin", TERMINAL_PHASES)))
    return (await cluster.list(ARENA_RUN, project.namespace, fields=selector)).items
