"""Tools of a bundle that a tool registry carries out: the file still says what the tool is, the registry where it is called.

Source: the specification's `toolRegistries`. Pure. Must not know where registries come from, nor how a tool is called.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.bundle.model import Bundle, Tool
from engine.bundle.services import HttpCall


@dataclass(frozen=True, slots=True)
class RegistryTool:
    """A tool as a registry discovered it. `endpoint` is a URL of whoever runs the job, so it may be a private address."""

    endpoint: str
    description: str = ""


def with_registry_tools(bundle: Bundle, tools: Mapping[str, RegistryTool]) -> Bundle:
    """Return the bundle with every tool of these names called over HTTP at its endpoint, by POST unless its file sets a method."""
    replaced = {name: _called_there(bundle.tools[name], tool) for name, tool in tools.items() if name in bundle.tools}
    return replace(bundle, tools={**bundle.tools, **replaced}) if replaced else bundle


def _called_there(tool: Tool, found: RegistryTool) -> Tool:
    call = tool.http or HttpCall(found.endpoint, location=tool.location)
    return replace(tool, mode="live", description=found.description or tool.description, http=replace(call, url=found.endpoint, of_job=True))
