"""From a job's tool registries to the tools that a plan calls there.

Source: the specification's `toolRegistries`: what a run reads is `status.discoveredTools`, and what a registry says of its own handlers is not asked.
"""

from collections.abc import Mapping
from typing import Any

from engine.bundle.registry_tools import RegistryTool
from reconcile.cluster.port import TOOL_REGISTRY, Object
from reconcile.errors import KindNotServed, NotFound
from reconcile.kinds.reasons import RunReason
from reconcile.run.scope import RunRefused, RunScope


async def registry_tools(run: RunScope) -> tuple[dict[str, RegistryTool], list[str]]:
    """Return the tools that the job's registries have discovered, by name, and what a person should know of them, as sentences.

    Of two tools of one name, that of the later registry counts.

    Raises:
        RunRefused: a registry does not exist.
    """
    tools: dict[str, RegistryTool] = {}
    origin: dict[str, str] = {}
    warnings: list[str] = []
    for name in (reference.name for reference in run.template.tool_registries):
        found = (await _registry(run, name)).get("status", {}).get("discoveredTools") or []
        if not found:
            warnings.append(f"ToolRegistry '{name}' has discovered no tools, so it changes nothing")
        for tool in found:
            warnings += _warnings(name, tool, origin)
            if tool.get("endpoint"):
                tools[tool["name"]] = RegistryTool(tool["endpoint"], tool.get("description") or "")
                origin[tool["name"]] = name
    return tools, warnings


async def _registry(run: RunScope, name: str) -> Object:
    try:
        return await run.cluster.get(TOOL_REGISTRY, run.namespace, name)
    except (NotFound, KindNotServed) as error:
        raise RunRefused(
            RunReason.TOOL_REGISTRY_NOT_FOUND,
            f"ToolRegistry '{name}' does not exist in namespace '{run.namespace}'",
            hint="apply it, then start the run again",
        ) from error


def _warnings(registry: str, tool: Mapping[str, Any], origin: Mapping[str, str]) -> list[str]:
    name, said = tool["name"], f"tool '{tool['name']}' of ToolRegistry '{registry}'"
    if not tool.get("endpoint"):
        return [f"{said} has no endpoint, so the bundle's own is called"]
    status = tool.get("status") or "Available"
    found = [f"{said} is {status}"] if status != "Available" else []
    return [*found, f"{said} takes the place of that of ToolRegistry '{origin[name]}'"] if name in origin else found
