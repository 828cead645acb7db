"""Reads a compiled PromptPack (promptkit-format.md 5.5): prompts, tools, workflow and compositions in one JSON file.

Owns the pack's own spelling; what stands in its parts is read by the readers of those parts. Must not know what an arena has beside the pack.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from yaml.nodes import Node

from engine.bundle.check_reader import session_evals
from engine.bundle.composition_reader import read_compositions
from engine.bundle.compositions import Composition
from engine.bundle.evaluations import EvalDef
from engine.bundle.fields import Table, json_object, json_value, map_of, name, read_object, record, string, string_map, strings
from engine.bundle.files import BundleFiles
from engine.bundle.ignored import PACK_PROMPT
from engine.bundle.model import NOTHING, Bundle, Location, PromptConfig, Tool
from engine.bundle.problems import Problems, shown
from engine.bundle.prompt_parts import Fragment
from engine.bundle.prompt_reader import PROMPT_TABLE
from engine.bundle.workflow_reader import read_workflow
from engine.bundle.workflows import Workflow
from engine.bundle.yamltree import Document

_SHARED = ("version", "description", "system_template", "variables", "tool_policy", "parameters", "validators", "evals", "tested_models")
_PROMPT = Table(
    PACK_PROMPT,
    {
        "id": string,
        "name": string,
        **{key: PROMPT_TABLE.keys[key] for key in (*_SHARED, "model_overrides", "media")},
        "tools": strings,
        "pipeline": json_value,
    },
    required=("system_template",),
)
_TOOL = Table("a pack's tool", {"name": name, "description": string, "parameters": json_object}, required=("name",))
_NOT_KEPT = ("tested_models", "pipeline", "name")


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack's parts; `refused` are those that it has and nobody carries out, by their keys. `prompts` are keyed by task_type."""

    prompts: Mapping[str, PromptConfig] = field(default_factory=dict)
    tools: Mapping[str, Tool] = field(default_factory=dict)
    evals: tuple[EvalDef, ...] = ()
    workflow: Workflow | None = None
    compositions: Mapping[str, Composition] = field(default_factory=dict)
    refused: Mapping[str, Location] = field(default_factory=dict)


def _located(document: Document, node: Node, key: str) -> Any:
    del key
    return document.at(node)


_PACK = Table(
    "a pack",
    {
        "$schema": string,
        "id": name,
        "name": string,
        "version": string,
        "description": string,
        "template_engine": json_object,
        "prompts": map_of(record(_PROMPT, dict)),
        "fragments": string_map,
        "tools": map_of(record(_TOOL, dict)),
        "metadata": json_value,
        "compilation": json_value,
        "evals": session_evals,
        "workflow": read_workflow,
        "compositions": read_compositions,
        "skills": _located,
        "agents": _located,
    },
    required=("id", "version", "prompts"),
)


def load_pack(files: BundleFiles, file: str, named_at: Location) -> Pack:
    """Read a pack of a bundle that is being loaded; an empty one after a problem."""
    opened = files.open(file, named_at)
    if opened is None:
        return Pack()
    document, node = opened
    values = files.attempt(document, lambda: read_object(document, node, _PACK))
    return Pack() if values is None else _pack(file, values)


def with_pack(bundle: Bundle, pack: Pack, problems: Problems) -> Bundle:
    """Return the bundle with a pack's parts beside its own.

    A tool of the arena's stands for the pack's of the same name, which says nothing of what it answers; any other part that both have is a problem.
    """
    arena = bundle.arena
    for task in pack.prompts.keys() & bundle.prompts.keys():
        problems.error(bundle.prompts[task].location, f"duplicate task_type '{shown(task)}'", f"the pack '{pack.prompts[task].file}' has it already")
    for key, own, theirs in (("workflow", arena.workflow, pack.workflow), ("compositions", arena.compositions, pack.compositions)):
        if own and theirs:
            problems.error(arena.uses[key], f"the arena has `{key}`, and so has its pack", "remove one of the two")
    return replace(
        bundle,
        prompts={**pack.prompts, **bundle.prompts},
        prompt_vars={**dict.fromkeys(pack.prompts, NOTHING), **bundle.prompt_vars},
        tools={**pack.tools, **bundle.tools},
        arena=replace(
            arena,
            workflow=arena.workflow or pack.workflow,
            compositions=arena.compositions or pack.compositions,
            pack_evals=(*arena.pack_evals, *pack.evals),
            uses={**arena.uses, **{f"{key} of its pack": place for key, place in pack.refused.items()}},
        ),
    )


def _pack(file: str, values: Mapping[str, Any]) -> Pack:
    fragments = tuple(Fragment(key, text=text) for key, text in values.get("fragments", {}).items())
    return Pack(
        prompts={task: _prompt(file, task, fields, fragments) for task, fields in values.get("prompts", {}).items()},
        tools={key: _tool(file, fields) for key, fields in values.get("tools", {}).items()},
        evals=values.get("evals", ()),
        workflow=values.get("workflow"),
        compositions=values.get("compositions", {}),
        refused={key: values[key] for key in ("skills", "agents") if key in values},
    )


def _prompt(file: str, task_type: str, fields: dict[str, Any], fragments: tuple[Fragment, ...]) -> PromptConfig:
    kept = {key: value for key, value in fields.items() if key not in (*_NOT_KEPT, "id", "tools")}
    ident = fields.get("id") or task_type
    return PromptConfig(
        id=ident, name=fields.get("name") or ident, file=file, task_type=task_type, allowed_tools=fields.get("tools", ()), fragments=fragments, **kept
    )


def _tool(file: str, fields: dict[str, Any]) -> Tool:
    return Tool(fields["name"], file, fields.get("description", ""), fields.get("parameters", {}), location=fields["location"])
