"""The status of Provider, AgentRuntime and ToolRegistry where nobody else writes it: in local mode, whose store serves these kinds itself.

On a cluster they may be another product's, and their status is its to write. Must not know runs.
"""

from reconcile.neighbours.agent import AgentReconciler
from reconcile.neighbours.provider import ProviderReconciler
from reconcile.neighbours.tools import ToolsReconciler
from reconcile.runtime.reconciler import Reconciler

__all__ = ["AgentReconciler", "ProviderReconciler", "ToolsReconciler", "neighbour_reconcilers"]


def neighbour_reconcilers() -> tuple[Reconciler, ...]:
    """Return one reconciler for each of these kinds."""
    return (ProviderReconciler(), AgentReconciler(), ToolsReconciler())
