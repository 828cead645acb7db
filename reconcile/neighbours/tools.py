"""ToolRegistry in local mode: its handlers are discovered as they are written."""

from collections.abc import Mapping
from typing import Any, Final

from reconcile.cluster.port import TOOL_REGISTRY, ResourceKind
from reconcile.kinds.reasons import NeighbourReason
from reconcile.runtime.reconciler import Done, Pass, Result

_IDLE: Final = frozenset(("method", "headers"))
"""What the specification's `discoveredTools` has no place for, so that no run sees it."""


class ToolsReconciler:
    """Lists the tools of `spec.handlers` in the status, from which runs read them."""

    kind: ResourceKind = TOOL_REGISTRY

    async def reconcile(self, scope: Pass) -> Result:
        """Do one pass."""
        tools = [_discovered(handler) for handler in scope.obj["spec"].get("handlers") or ()]
        scope.status |= {"phase": "Ready", "discoveredTools": tools, "discoveredToolsCount": len(tools)}
        idle = [handler["name"] for handler in scope.obj["spec"].get("handlers") or () if _IDLE & handler["httpConfig"].keys()]
        said = f"; method and headers of {', '.join(idle)} are not used: a bundle's file says them" if idle else ""
        return Done(NeighbourReason.TOOLS_DISCOVERED, f"{len(tools)} tool{'' if len(tools) == 1 else 's'}, as written{said}", final=True)


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
