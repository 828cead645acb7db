"""Reads the arena file's spec: what it names and what it says itself.

Owns the tables of the arena file. Inline specs stay nodes: the loader reads them like the files they stand for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from yaml.nodes import MappingNode, Node

from engine.bundle.check_reader import checks, session_evals
from engine.bundle.fields import (
    INVALID,
    Table,
    boolean,
    checked,
    duration,
    integer,
    json_object,
    json_value,
    list_of,
    map_of,
    name,
    number,
    one_of,
    reads,
    record,
    schema_in,
    string,
    string_map,
)
from engine.bundle.ignored import ARENA, DEFAULTS, INLINE_JUDGE, JUDGE_DEFAULTS, SELF_PLAY, STATE_STORE
from engine.bundle.model import NOWHERE, Location
from engine.bundle.model_names import SLOTS
from engine.bundle.resources import file_reference
from engine.bundle.roles import Judge, SelfPlayRole
from engine.bundle.skills import SkillReference
from engine.bundle.yamltree import Document, entries, kind_of


def program_names(document: Document, spec: Node) -> frozenset[str]:
    """Return the names of the programs that evaluate (`runtime.evals`), which checks anywhere in the bundle may have as their type."""
    for key in ("runtime", "evals"):
        present = entries(document, spec) if isinstance(spec, MappingNode) else {}
        if key not in present:
            return frozenset()
        spec = present[key][1]
    return frozenset(entries(document, spec)) if isinstance(spec, MappingNode) else frozenset()


@dataclass(frozen=True, slots=True)
class Reference:
    """One entry of a list of files. `id` and `vars` are a prompt's, `group` a provider's."""

    file: str
    id: str = ""
    group: str = "default"
    vars: Mapping[str, str] = field(default_factory=dict)
    location: Location = NOWHERE


@reads({"type": "object"})
def _inline(document: Document, node: Node, key: str) -> Any:
    if not isinstance(node, MappingNode):
        document.error(node, f"cannot read '{key}': it must be an object of id and spec, not {kind_of(node)}")
        return INVALID
    return entries(document, node)


@reads(lambda: schema_in("workflow_reader", "read_workflow"))
def _workflow(document: Document, node: Node, key: str) -> Any:
    from engine.bundle.workflow_reader import read_workflow  # noqa: PLC0415 - only arenas that have one need it

    return read_workflow(document, node, key)


@reads(lambda: schema_in("composition_reader", "read_compositions"))
def _compositions(document: Document, node: Node, key: str) -> Any:
    from engine.bundle.composition_reader import read_compositions  # noqa: PLC0415 - as above

    return read_compositions(document, node, key)


@reads({"type": ["boolean", "object"]})
def _memory(document: Document, node: Node, key: str) -> Any:
    if not isinstance(node, MappingNode):
        return boolean(document, node, key)
    present = entries(document, node)
    for setting, (place, _) in present.items():
        if setting != "enabled":
            document.problems.warning(document.at(place), f"'{setting}' of `memory` has no effect: memories live within one conversation")
    return boolean(document, present["enabled"][1], "enabled") if "enabled" in present else True


@reads(lambda: schema_in("service_reader", "mcp_server"))
def _mcp_server(document: Document, node: Node, key: str) -> Any:
    from engine.bundle.service_reader import mcp_server  # noqa: PLC0415 - only arenas that have one need it

    return mcp_server(document, node, key)


@reads(lambda: schema_in("service_reader", "a2a_agent"))
def _a2a_agent(document: Document, node: Node, key: str) -> Any:
    from engine.bundle.service_reader import a2a_agent  # noqa: PLC0415 - as above

    return a2a_agent(document, node, key)


@reads(lambda: schema_in("service_reader", "commands"))
def _programs(document: Document, node: Node, key: str) -> Any:
    from engine.bundle.service_reader import commands  # noqa: PLC0415 - as above

    return commands(document, node, key)


@reads({"type": "boolean", "deprecated": True})
def _enabled(document: Document, node: Node, key: str) -> Any:
    enabled = boolean(document, node, key)
    if enabled is False:
        document.problems.warning(document.at(node), f"'{key}' of {SELF_PLAY} has no effect: that the section is there turns self-play on")
    return enabled


_FILES = list_of(record(Table("a reference", {"file": file_reference}, required=("file",)), Reference))
_PROVIDERS = list_of(record(Table("a provider reference", {"file": file_reference, "group": name}, required=("file",)), Reference))
_PROMPTS = list_of(record(Table("a prompt reference", {"id": name, "file": file_reference, "vars": string_map}, required=("id", "file")), Reference))
_JUDGES = list_of(record(Table("a judge", {"name": name, "provider": name}, required=("name", "provider")), Judge))
_ROLES = list_of(record(Table("a self-play role", {"id": name, "provider": name}, required=("id", "provider")), SelfPlayRole))
_OUTPUT = Table(
    "`output`",
    {
        "dir": string,
        "formats": list_of(one_of("json", "junit", "markdown", "html")),
        "json": json_value,
        "html": json_value,
        "junit": json_value,
        "markdown": json_value,
        "recording": json_value,
    },
)
_DEFAULTS_TABLE = Table(
    DEFAULTS,
    {
        "temperature": number,
        "max_tokens": integer(1),
        "seed": integer(),
        "concurrency": integer(0),
        "run_timeout": duration,
        "output": checked(_OUTPUT),
        "config_dir": file_reference,
        "fail_on": list_of(one_of("assertion_failure", "provider_error", "timeout", "validation_error")),
        "verbose": boolean,
        "monitor": json_object,
        "inference": record(Table("`inference`", dict.fromkeys(SLOTS, name)), dict, located=False),
        "html_report": json_value,
        "out_dir": json_value,
        "output_formats": json_value,
        "markdown_config": json_value,
    },
)
_SELF_PLAY = Table(SELF_PLAY, {"enabled": _enabled, "personas": _FILES, "persona_specs": _inline, "roles": _ROLES})
_SKILL = Table(
    "a skill", {"dir": file_reference, "path": file_reference, "name": name, "description": string, "instructions": string, "preload": boolean}
)
_RUNTIME_KEYS = (
    *("providers", "embedding_providers", "tts_providers", "stt_providers", "inference_providers", "tools", "mcp_servers", "state_store"),
    *("logging", "hooks", "sandboxes", "selectors", "skills", "tool_selector"),
)
_RUNTIME = record(Table("`runtime`", {**dict.fromkeys(_RUNTIME_KEYS, json_value), "evals": _programs}), dict, located=False)
_STATE_STORE = Table(STATE_STORE, {"type": one_of("memory", "redis", "file"), "redis": json_object, "file": json_object})
_INLINE_JUDGE = Table(INLINE_JUDGE, {"name": name, "provider": name}, required=("provider",))
_VOICE = Table("a voice", {"id": name, "provider": name}, required=("id", "provider"))

ROLE_SLOTS = {"tts_providers": "tts", "stt_providers": "stt", "embedding_providers": "embedding", "image_providers": "image"}
"""The legacy lists of providers by role; each file's role must be the slot's."""

ARENA_TABLE = Table(
    ARENA,
    {
        "prompt_configs": _PROMPTS,
        "providers": _PROVIDERS,
        "judges": _JUDGES,
        "judge_defaults": checked(Table(JUDGE_DEFAULTS, {"prompt": string, "prompt_registry": string})),
        "scenarios": _FILES,
        "evals": _FILES,
        "tools": _FILES,
        "skills": list_of(record(_SKILL, SkillReference)),
        "pack_evals": session_evals,
        "globals": record(Table("`globals`", {"conversation_assertions": checks}), dict, located=False),
        "runtime": _RUNTIME,
        "workflow": _workflow,
        "compositions": _compositions,
        "memory": _memory,
        "agents": json_value,
        "deploy": json_object,
        "mcp_servers": list_of(_mcp_server),
        "a2a_agents": list_of(_a2a_agent),
        "state_store": checked(_STATE_STORE),
        "defaults": record(_DEFAULTS_TABLE, dict, located=False),
        "self_play": record(_SELF_PLAY, dict, located=False),
        "pack_file": file_reference,
        "provider_specs": _inline,
        "scenario_specs": _inline,
        "eval_specs": _inline,
        "tool_specs": _inline,
        "judge_specs": map_of(record(_INLINE_JUDGE, dict, located=False)),
        "prompt_specs": _inline,
        **dict.fromkeys(ROLE_SLOTS, _PROVIDERS),
        "voices": list_of(checked(_VOICE)),
    },
)
