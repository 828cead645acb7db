"""ToolRegistry in local mode: its handlers are discovered as they are written."""

from collections.abc import Mapping
from typing import Any

from reconcile.cluster.port import TOOL_REGISTRY, ResourceKind
from reconcile.kinds.reasons import NeighbourReason
from reconcile.runtime.reconciler import Done, Pass, Result


class ToolsReconciler:
    """Lists the tools of `spec.handlers` in the status, from which runs read them."""

    kind: ResourceKind = TOOL_REGISTRY

    async def reconcile(self, scope: Pass) -> Result:
        """Do one pass."""
        tools = [_discovered(handler) for handler in scope.obj["spec"].get("handlers") or ()]
        scope.status |= {"phase": "Ready", "discoveredTools": tools, "discoveredToolsCount": len(tools)}
        return Done(NeighbourReason.TOOLS_DISCOVERED, f"{len(tools)} tool{'' if len(tools) == 1 else 's'}, as written", final=True)


def _discovered(handler: Mapping[str, Any]) -> dict[str, Any]:
    tool = handler["tool"]
    return {
        "name": tool["name"],
        "handlerName": handler["name"],
        "description": tool["description"],
        "inputSchema": tool["inputSchema"],
        "endpoint": handler["httpConfig"]["endpoint"],
        "status": "Available",
    }
