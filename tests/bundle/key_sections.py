"""A bundle that has everything, and how one key of it is changed: what `test_every_key.py` asks about is in the `keys_of_*.py` beside it."""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = Any
FILES: Mapping[str, str] = {
    "fragment.md": "A fragment.",
    "skills/one/SKILL.md": "---\nname: one\ndescription: d\n---\nDo it.\n",
    "p.png": "png",
    "other/x.png": "png",
    "mock.yaml": "defaultResponse: hi\n",
    "other/mock.yaml": "defaultResponse: hi\n",
    "talk.transcript.yaml": "messages: [{role: user, content: a}, {role: assistant, content: b}]\n",
    "pack.json": '{"id": "k", "version": "1", "prompts": {"packed": {"system_template": "p"}}}',
    "more/tool.json": '{"name": "raw", "description": "d", "input_schema": {}}',
}
OF_KIND = {
    "arena": "Arena",
    "scenario": "Scenario",
    "more": "Scenario",
    "provider": "Provider",
    "remote": "Provider",
    "embedder": "Provider",
    "prompt": "PromptConfig",
    "tool": "Tool",
    "persona": "Persona",
    "eval": "Eval",
}
CHECK = {"type": "contains", "params": {"patterns": ["hi"]}}
STEP = {"id": "a", "kind": "prompt", "prompt_task": "t"}

SPECS: Mapping[str, Json] = {
    "arena": {
        "prompt_configs": [{"id": "p", "file": "prompt.yaml"}],
        "providers": [{"file": "provider.yaml"}, {"file": "remote.yaml"}, {"file": "embedder.yaml"}],
        "scenarios": [{"file": "scenario.yaml"}],
        "tools": [{"file": "tool.yaml"}],
        "judges": [{"name": "j", "provider": "remote"}],
        "self_play": {"personas": [{"file": "persona.yaml"}], "roles": [{"id": "crowd", "provider": "remote"}]},
        "evals": [{"file": "eval.yaml"}],
    },
    "scenario": {"task_type": "t", "description": "d", "turns": [{"role": "user", "content": "go {x}", "assertions": [CHECK]}]},
    "more": {"task_type": "t", "description": "d", "turns": [{"role": "user", "content": "go", "assertions": [CHECK]}]},
    "provider": {"type": "mock", "model": "m", "additional_config": {"mock_config": "mock.yaml"}},
    "remote": {"type": "openai", "model": "gpt-4o"},
    "embedder": {"type": "openai", "model": "small", "role": "embedding"},
    "prompt": {"task_type": "t", "system_template": "Be kind. {{v}}", "allowed_tools": ["tool"], "variables": [{"name": "v", "default": "d"}]},
    "tool": {"description": "d", "input_schema": {"type": "object"}, "mode": "mock", "mock_result": {"a": 1}},
    "persona": {"system_template": "You are one.", "description": "d"},
    "eval": {"recording": {"path": "talk.transcript.yaml"}, "conversation_assertions": [CHECK]},
}


@dataclass(frozen=True, slots=True)
class Section:
    """Keys of one object of the format: where it stands (`scenario:turns.0`), a value for each, and what must be there beside them."""

    place: str
    keys: Mapping[str, Json]
    around: Mapping[str, Json] = field(default_factory=dict)


def written(root: Path, section: Section, change: Mapping[str, Json]) -> Path:
    """Write the bundle of a section, with `change` at its place, and return its root."""
    specs: dict[str, Json] = copy.deepcopy(dict(SPECS))
    for place, value in section.around.items():
        put(specs, place, copy.deepcopy(value))
    for key, value in change.items():
        put(specs, f"{section.place}{'' if section.place.endswith(':') else '.'}{key}", copy.deepcopy(value))
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for kind, spec in specs.items():
        name = "config.arena" if kind == "arena" else kind
        manifest = {"apiVersion": "v", "kind": OF_KIND[kind], "metadata": {"name": kind}, "spec": spec}
        (root / f"{name}.yaml").write_text(json.dumps(manifest))
    return root


def put(specs: dict[str, Json], place: str, value: Json) -> None:
    """Put a value at a place, such as `scenario:turns.0`; what leads there is made where it is not."""
    kind, _, path = place.partition(":")
    if not path:
        specs[kind] = value
        return
    at = specs[kind]
    *outer, last = path.split(".")
    for step in outer:
        at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
    if isinstance(at, list):
        at[int(last)] = value
    else:
        at[last] = value
