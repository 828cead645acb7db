"""The keys of promptkit-format.md, sections 1 and 2: arenas and scenarios, each with a value that makes a difference."""

from collections.abc import Mapping

from tests.bundle.key_sections import CHECK, STEP, Section

_CARD = {"name": "A", "skills": [{"id": "ask"}]}
_IMAGE = {
    "scenario:turns.0.parts": [{"type": "image", "media": {"mime_type": "image/png", "url": "https://a.example/p.png"}}],
    "scenario:turns.0.content": "",
}
_RELEVANCE = {"scenario:context_policy": {"strategy": "relevance", "token_budget": 9000, "relevance": {}}}
_PLAYED = {"scenario:turns.0": {"role": "crowd", "persona": "persona", "assertions": [CHECK]}}
_RUNTIME_LISTS = ("providers", "embedding_providers", "tts_providers", "stt_providers", "inference_providers", "tools", "mcp_servers")
_RUNTIME_OBJECTS = ("state_store", "logging", "hooks", "sandboxes", "selectors", "skills", "tool_selector")

SECTIONS: Mapping[str, Section] = {
    "1.2 arena": Section(
        "arena:",
        {
            "prompt_configs": [{"id": "other", "file": "prompt.yaml"}],
            "providers": [{"file": "provider.yaml"}, {"file": "remote.yaml"}],
            "judges": [{"name": "other", "provider": "remote"}],
            "judge_defaults": {"prompt": "p"},
            "scenarios": [{"file": "scenario.yaml"}, {"file": "more.yaml"}],
            "evals": [],
            "tools": [{"file": "tool.yaml"}, {"file": "more/tool.json"}],
            "skills": [{"dir": "skills/one"}],
            "pack_evals": [{"type": "contains", "params": {"patterns": ["a"]}}],
            "globals": {"conversation_assertions": [CHECK]},
            "runtime": {"hooks": {}},
            "workflow": {"entry": "t", "states": {"t": {"prompt_task": "t"}}},
            "compositions": {"c": {"steps": [STEP]}},
            "memory": True,
            "agents": {},
            "deploy": {},
            "mcp_servers": [{"name": "m", "command": "run"}],
            "a2a_agents": [{"name": "a", "card": _CARD}],
            "state_store": {"type": "redis"},
            "defaults": {"temperature": 0.5},
            "self_play": {"roles": [{"id": "other", "provider": "remote"}]},
            "pack_file": "pack.json",
            "provider_specs": {"inline": {"type": "mock"}},
            "scenario_specs": {"inline": {"task_type": "t", "turns": [{"role": "user", "content": "a"}]}},
            "eval_specs": {"inline": {"recording": {"path": "talk.transcript.yaml"}}},
            "tool_specs": {"inline": {"description": "d", "input_schema": {}}},
            "judge_specs": {"inline": {"provider": "remote"}},
            "prompt_specs": {"inline": {"task_type": "u", "system_template": "x"}},
            "tts_providers": [],
            "stt_providers": [],
            "embedding_providers": [{"file": "embedder.yaml"}],
            "image_providers": [{"file": "embedder.yaml"}],
            "voices": [{"id": "v", "provider": "remote"}],
        },
    ),
    "1.2 prompt_configs[]": Section("arena:prompt_configs.0", {"id": "other", "file": "gone.yaml", "vars": {"v": "w"}}),
    "1.2 providers[]": Section("arena:providers.0", {"file": "gone.yaml", "group": "g"}),
    "1.2 judges[]": Section("arena:judges.0", {"name": "other", "provider": "provider"}),
    "1.2 judge_defaults": Section("arena:judge_defaults", {"prompt": "p", "prompt_registry": "r"}, {"arena:judge_defaults": {}}),
    "1.2 skills[]": Section(
        "arena:skills.0", {"description": "e", "preload": True, "name": "n", "instructions": "do"}, {"arena:skills": [{"dir": "skills/one"}]}
    ),
    "1.2 skills[] by path": Section(
        "arena:skills.0", {"dir": "skills/one", "path": "skills/one"}, {"arena:skills": [{"name": "n", "instructions": "i"}]}
    ),
    "1.2 state_store": Section("arena:state_store", {"type": "file", "redis": {}, "file": {}}, {"arena:state_store": {}}),
    "1.2 self_play": Section(
        "arena:self_play",
        {
            "enabled": False,
            "personas": [{"file": "persona.yaml"}],
            "persona_specs": {"q": {"system_prompt": "x"}},
            "roles": [{"id": "r", "provider": "remote"}],
        },
        {"arena:self_play": {}},
    ),
    "1.2 judge_specs": Section("arena:judge_specs.x", {"name": "y", "provider": "provider"}, {"arena:judge_specs": {"x": {"provider": "remote"}}}),
    "1.3 defaults": Section(
        "arena:defaults",
        {
            "temperature": 0.5,
            "max_tokens": 5,
            "seed": 1,
            "concurrency": 2,
            "run_timeout": "5s",
            "output": {"dir": "out"},
            "config_dir": "other",
            "fail_on": ["timeout"],
            "verbose": True,
            "monitor": {},
            "inference": {"embedder": "embedder"},
            "html_report": "x",
            "out_dir": "x",
            "output_formats": ["json"],
            "markdown_config": {},
        },
        {"arena:defaults": {}},
    ),
    "1.6 runtime": Section(
        "arena:runtime",
        {**{key: [] for key in _RUNTIME_LISTS}, **{key: {} for key in _RUNTIME_OBJECTS}, "evals": {"prog": {"command": "run"}}},
        {"arena:runtime": {}},
    ),
    "2.1 scenario": Section(
        "scenario:",
        {
            "id": "other",
            "task_type": "gone",
            "mode": "m",
            "labels": {"a": "b"},
            "context_metadata": {"domain": "d"},
            "turns": [],
            "context": {},
            "constraints": {},
            "tool_policy": {"tool_choice": "none"},
            "providers": ["provider"],
            "provider_group": "g",
            "required_capabilities": ["vision"],
            "streaming": True,
            "context_policy": {"token_budget": 5},
            "conversation_assertions": [CHECK],
            "duplex": {},
            "voice": "v",
            "variables": {"v": "w"},
            "trials": 2,
            "seed_memories": [{"content": "c"}],
        },
    ),
    "2.1 seed_memories[]": Section(
        "scenario:seed_memories.0",
        {"content": "d", "type": "t", "confidence": 0.5, "metadata": {"a": 1}},
        {"scenario:seed_memories": [{"content": "c"}]},
    ),
    "2.2 turns[]": Section(
        "scenario:turns.0",
        {
            "role": "gone",
            "content": "other",
            "parts": [{"type": "text", "text": "a"}],
            "persona": "persona",
            "turns": 2,
            "max_turns": 3,
            "streaming": True,
            "assistant_temp": 0.5,
            "user_temp": 0.5,
            "seed": 1,
            "consent_overrides": {"tool": "deny"},
            "perturbations": {"x": ["1", "2"]},
            "chaos": {"tool_failures": [{"tool": "tool", "mode": "error"}]},
            "assertions": [],
        },
    ),
    "2.2 turns[] of a persona": Section("scenario:turns.0", {"turns": 2, "max_turns": 3}, _PLAYED),
    "2.2 parts[]": Section(
        "scenario:turns.0.parts.0", {"type": "audio", "text": "t", "media": {"mime_type": "image/gif", "url": "https://a.example"}}, _IMAGE
    ),
    "2.2 media": Section(
        "scenario:turns.0.parts.0.media",
        {
            "file_path": "p.png",
            "url": "https://b.example/q.png",
            "data": "aGk=",
            "storage_reference": "s",
            "mime_type": "image/gif",
            "detail": "low",
            "caption": "c",
        },
        _IMAGE,
    ),
    "2.2 tool_failures[]": Section(
        "scenario:turns.0.chaos.tool_failures.0",
        {"tool": "other", "mode": "slow", "probability": 0.5, "message": "m"},
        {"scenario:turns.0.chaos": {"tool_failures": [{"tool": "tool", "mode": "error"}]}},
    ),
    "2.3 assertions[]": Section(
        "scenario:turns.0.assertions.0",
        {"type": "contains_any", "params": {"patterns": ["ho"]}, "message": "m", "when": {"any_tool_called": True}, "pass_threshold": 0.5},
    ),
    "2.3 when": Section(
        "scenario:turns.0.assertions.0.when",
        {"tool_called": "tool", "tool_called_pattern": "t.*", "any_tool_called": True, "min_tool_calls": 2},
        {"scenario:turns.0.assertions.0.when": {}},
    ),
    "2.4 tool_policy": Section(
        "scenario:tool_policy",
        {
            "tool_choice": "required",
            "max_tool_calls_per_turn": 3,
            "max_total_tool_calls": 3,
            "blocklist": ["tool"],
            "max_rounds": 3,
            "max_cost_usd": 1.0,
            "max_identical_tool_calls": 2,
        },
        {"scenario:tool_policy": {}},
    ),
    "2.5 context_policy": Section(
        "scenario:context_policy",
        {"token_budget": 5, "reserve_for_output": 5, "strategy": "fail", "cache_breakpoints": True, "relevance": {"last_n_count": 2}},
        {"scenario:context_policy": {}},
    ),
    "2.5 relevance": Section(
        "scenario:context_policy.relevance",
        {
            "provider": "gemini",
            "model": "large",
            "min_recent_messages": 1,
            "always_keep_system_role": False,
            "similarity_threshold": 0.5,
            "query_source": "custom",
            "last_n_count": 2,
            "custom_query": "q",
            "cache_embeddings": True,
        },
        _RELEVANCE,
    ),
    "2.6 duplex": Section("scenario:duplex", {"timeout": "5s", "turn_detection": {"mode": "vad"}, "resilience": {"max_retries": 1}}),
}
