"""The keys of promptkit-format.md, sections 3 to 5: checks, providers, prompts, workflows and compositions, each with a value that makes a difference."""

from collections.abc import Mapping

from tests.bundle.key_sections import CHECK, STEP, Section

_PACK_EVAL = {"arena:pack_evals": [{"id": "e", "type": "contains", "params": {"patterns": ["a"]}}]}
_STATES = {"s": {"prompt_task": "t", "on_event": {"GO": "z"}}, "z": {"prompt_task": "t"}}
_WORKFLOW = {"scenario:task_type": "s", "arena:workflow": {"entry": "s", "states": _STATES}}
_COMPOSITION = {"arena:compositions": {"c": {"steps": [STEP]}}, "scenario:task_type": "c"}
_TWO = {"id": "b", "kind": "prompt", "prompt_task": "t"}
_ONE_FRAGMENT = {"prompt:fragments": [{"name": "f", "path": "fragment.md", "required": True}]}
_PACK = {"arena:pack_file": "pack.json"}

SECTIONS: Mapping[str, Section] = {
    "3.7 pack_evals[]": Section(
        "arena:pack_evals.0",
        {
            "id": "f",
            "type": "contains_any",
            "trigger": "every_turn",
            "params": {"patterns": ["b"]},
            "enabled": False,
            "sample_percentage": 50,
            "metric": {"name": "m"},
            "threshold": {"min_score": 0.5},
            "message": "m",
            "when": {"any_tool_called": True},
            "groups": ["fast-running"],
        },
        _PACK_EVAL,
    ),
    "3.7 threshold": Section(
        "arena:pack_evals.0.threshold", {"passed": True, "min_score": 0.5, "max_score": 0.9}, {**_PACK_EVAL, "arena:pack_evals.0.threshold": {}}
    ),
    "3.8 eval": Section(
        "eval:",
        {
            "id": "other",
            "recording": {"path": "gone.transcript.yaml"},
            "turns": [{"all_turns": {"assertions": [CHECK]}}],
            "conversation_assertions": [],
            "tags": ["a"],
            "mode": "realtime",
            "speed": 2,
        },
    ),
    "3.8 recording": Section("eval:recording", {"path": "gone.transcript.yaml", "type": "session"}),
    "4.1 provider": Section(
        "remote:",
        {
            "id": "other",
            "type": "claude",
            "model": "other",
            "role": "embedding",
            "voice": "v",
            "sample_rate": 1,
            "audio_files": ["a"],
            "base_url": "https://a.example",
            "headers": {"a": "b"},
            "rate_limit": {"rps": 1, "burst": 1},
            "defaults": {"temperature": 0.5},
            "pricing": {"input_cost_per_1k": 1, "output_cost_per_1k": 1},
            "pricing_correct_at": "2026",
            "include_raw_output": True,
            "additional_config": {"api_mode": "chat"},
            "credential": {"credential_env": "KEY"},
            "platform": {"type": "azure", "endpoint": "https://a.example"},
            "capabilities": ["text"],
            "unsupported_params": ["seed"],
            "request_timeout": "5s",
            "stream_idle_timeout": "5s",
            "stream_retry": {"enabled": True},
            "stream_max_concurrent": 1,
            "http_transport": {"max_conns_per_host": 1},
        },
    ),
    "4.1 provider's defaults": Section(
        "remote:defaults", {"temperature": 0.5, "top_p": 0.5, "max_tokens": 5, "prompt_caching": True}, {"remote:defaults": {}}
    ),
    "4.1 platform": Section(
        "remote:platform",
        {"type": "vertex", "region": "r", "project": "p", "endpoint": "https://a.example", "additional_config": {"a": 1}},
        {"remote:platform": {"type": "azure"}},
    ),
    "4.3 credential": Section("remote:credential", {"api_key": "k", "credential_file": "f", "credential_env": "KEY"}, {"remote:credential": {}}),
    "4.5 mock": Section(
        "provider:additional_config",
        {
            "mock_config": "other/mock.yaml",
            "auto_respond": True,
            "response_text": "t",
            "duplex_scenario": "d",
            "interrupt_on_turn": 1,
            "close_after_turns": 1,
            "close_no_response": True,
        },
    ),
    "4.6 replay": Section(
        "provider:additional_config",
        {"recording": "talk.transcript.yaml", "arena_output": "x.json", "timing": "realtime", "speed": 2, "match": "content"},
        {"provider:": {"type": "replay", "additional_config": {}}},
    ),
    "5.1 prompt": Section(
        "prompt:",
        {
            "task_type": "other",
            "version": "2",
            "template_engine": {"version": "v1"},
            "system_template": "Other.",
            "fragments": [{"name": "f", "path": "fragment.md"}],
            "variables": [],
            "model_overrides": {"gpt-4o": {"system_template": "x"}},
            "allowed_tools": [],
            "tool_policy": {"max_rounds": 2},
            "parameters": {},
            "media": {},
            "validators": [{"type": "banned_words", "params": {"words": ["a"]}}],
            "evals": [{"type": "contains", "params": {"patterns": ["a"]}}],
            "tested_models": [],
            "metadata": {},
            "compilation": {},
        },
    ),
    "5.1 fragments[]": Section("prompt:fragments.0", {"name": "g", "path": "gone.md", "required": False}, _ONE_FRAGMENT),
    "5.1 variables[]": Section(
        "prompt:variables.0",
        {"name": "w", "type": "number", "required": True, "default": "e", "example": "x", "validation": {}, "binding": {}},
    ),
    "5.1 model_overrides": Section(
        "prompt:model_overrides.large", {"system_template": "x", "system_template_suffix": "y"}, {"prompt:model_overrides": {"large": {}}}
    ),
    "5.4 validators[]": Section(
        "prompt:validators.0",
        {"type": "max_length", "params": {"words": ["b"]}, "enabled": False, "message": "m", "fail_on_violation": True},
        {"prompt:validators": [{"type": "banned_words", "params": {"words": ["a"]}}]},
    ),
    "5.4 params of validators[]": Section(
        "prompt:validators.0.params",
        {"direction": "input", "min_score": 0.5, "max_score": 0.9},
        {"prompt:validators": [{"type": "banned_words", "params": {"words": ["a"]}}]},
    ),
    "5.5 pack": Section("arena:", {"pack_file": "gone.json"}, _PACK),
    "5.6 workflow": Section(
        "arena:workflow",
        {"version": 2, "entry": "z", "states": {"s": {"prompt_task": "t"}}, "engine": {"budget": {"max_tool_calls": 1}}},
        _WORKFLOW,
    ),
    "5.6 states": Section(
        "arena:workflow.states.s",
        {
            "prompt_task": "gone",
            "description": "d",
            "on_event": {"OTHER": "z"},
            "persistence": "persistent",
            "orchestration": "external",
            "composition": "c",
            "skills": "none",
            "terminal": True,
            "max_visits": 1,
            "on_max_visits": "z",
            "artifacts": ["a"],
        },
        _WORKFLOW,
    ),
    "5.6 budget": Section(
        "arena:workflow.engine.budget",
        {"max_total_visits": 1, "max_tool_calls": 1, "max_wall_time_sec": 1},
        {**_WORKFLOW, "arena:workflow.engine": {"budget": {}}},
    ),
    "5.6 artifacts": Section(
        "arena:workflow.states.s.artifacts.a",
        {"type": "text", "description": "d", "mode": "append"},
        {**_WORKFLOW, "arena:workflow.states.s.artifacts": {"a": {}}},
    ),
    "5.6 compositions": Section(
        "arena:compositions.c",
        {
            "version": 2,
            "input_schema": {"type": "object"},
            "output_schema": {"type": "object"},
            "output": "gone",
            "steps": [_TWO],
            "engine": {},
        },
        _COMPOSITION,
    ),
    "5.6 steps[]": Section(
        "arena:compositions.c.steps.0",
        {
            "id": "z",
            "kind": "agent",
            "prompt_task": "gone",
            "input": "x",
            "output_schema": {"type": "object"},
            "termination": {"max_steps": 2},
            "tools": ["tool"],
            "tool": "tool",
            "args": {},
            "predicate": {"path": "input", "exists": True},
            "then": "b",
            "else": "b",
            "branches": [STEP, _TWO],
            "reduce": {"into": "x"},
            "depends_on": ["b"],
            "modifiers": {"retry": {"max_attempts": 2}},
        },
        _COMPOSITION,
    ),
}
