"""The keys of promptkit-format.md, sections 6 and 7: tools, servers, agents and personas, each with a value that makes a difference."""

from collections.abc import Mapping

from tests.bundle.key_sections import Section

_TOOL = {"description": "d", "input_schema": {"type": "object"}}
_LIVE = {"tool:": {**_TOOL, "mode": "live", "http": {"url": "https://a.example/x"}}}
_EXEC = {"tool:": {**_TOOL, "mode": "exec", "exec": {"command": "run"}}}
_CLIENT = {"tool:": {**_TOOL, "mode": "client", "mock_result": {"a": 1}, "client": {"consent": {}}}}
_MCP = {"arena:mcp_servers": [{"name": "m", "command": "run"}], "prompt:allowed_tools": ["tool", "mcp__m__x"]}
_FAR_MCP = {"arena:mcp_servers": [{"name": "m", "url": "https://a.example/mcp"}], "prompt:allowed_tools": ["tool", "mcp__m__x"]}
_CARD = {"name": "A", "skills": [{"id": "ask"}]}
_AGENT = {"arena:a2a_agents": [{"name": "a", "card": _CARD, "responses": [{"response": {"parts": [{"text": "x"}]}}]}]}
_FAR_AGENT = {"arena:a2a_agents": [{"name": "a", "url": "https://a.example/a2a"}]}
_PERSONA = "You are one."

SECTIONS: Mapping[str, Section] = {
    "6.2 tool": Section(
        "tool:",
        {
            "name": "other",
            "description": "e",
            "input_schema": {"type": "object", "required": ["a"]},
            "output_schema": {"type": "object"},
            "mode": "mcp",
            "mock_result": {"b": 1},
            "mock_template": "{{.a}}",
            "mock_parts": [{"type": "text", "text": "a"}],
            "http": {"url": "https://a.example"},
            "exec": {"command": "run"},
            "client": {},
        },
    ),
    "6.2 live tool": Section("tool:", {"timeout_ms": 5}, _LIVE),
    "6.2 http": Section(
        "tool:http",
        {
            "url": "https://b.example",
            "method": "GET",
            "headers": {"a": "b"},
            "headers_from_env": ["A=B"],
            "timeout_ms": 5,
            "redact": ["a"],
            "request": {"query_params": ["q"]},
            "response": {"body_mapping": "a"},
            "multimodal": {"enabled": True},
        },
        _LIVE,
    ),
    "6.2 http.request": Section(
        "tool:http.request",
        {
            "query_params": ["q"],
            "header_params": {"A": "b"},
            "body_mapping": "a",
            "exclude": ["x"],
            "static_query": {"a": 1},
            "static_headers": {"a": "b"},
            "static_body": {"a": 1},
        },
        {**_LIVE, "tool:http.request": {}},
    ),
    "6.2 http.multimodal": Section("tool:http.multimodal", {"enabled": True, "accept_types": ["image/png"]}, {**_LIVE, "tool:http.multimodal": {}}),
    "6.2 exec": Section("tool:exec", {"command": "other", "args": ["a"], "env": ["A"], "runtime": "server", "timeout_ms": 5, "sandbox": "s"}, _EXEC),
    "6.2 client": Section(
        "tool:client", {"consent": {"decline_strategy": "error"}, "timeout_ms": 5, "categories": ["a"], "validate_output": True}, _CLIENT
    ),
    "6.2 client.consent": Section("tool:client.consent", {"required": True, "message": "m", "decline_strategy": "error"}, _CLIENT),
    "6.5 mcp_servers[]": Section(
        "arena:mcp_servers.0",
        {
            "name": "n",
            "command": "other",
            "args": ["a"],
            "env": {"A": "b"},
            "working_dir": "skills",
            "url": "https://a.example",
            "headers": {"a": "b"},
            "source": "docker",
            "scope": "run",
            "source_args": {},
            "transport": "sse",
            "tool_filter": {"allowlist": ["x"]},
            "timeout_ms": 5,
        },
        _MCP,
    ),
    "6.5 mcp_servers[] by url": Section(
        "arena:mcp_servers.0",
        {"headers": {"a": "b"}, "transport": "streamable_http", "args": ["a"], "env": {"A": "b"}, "working_dir": "skills"},
        _FAR_MCP,
    ),
    "6.5 tool_filter": Section(
        "arena:mcp_servers.0.tool_filter", {"allowlist": ["x"], "blocklist": ["x"]}, {**_MCP, "arena:mcp_servers": [{"name": "m", "command": "run"}]}
    ),
    "6.6 a2a_agents[] of a card": Section(
        "arena:a2a_agents.0",
        {
            "name": "b",
            "card": {"name": "B", "skills": [{"id": "ask"}]},
            "responses": [],
            "url": "https://a.example",
            "auth": {"token": "t"},
            "headers": {"a": "b"},
            "headers_from_env": ["A=B"],
            "timeout_ms": 5,
            "skill_filter": {"blocklist": ["ask"]},
        },
        _AGENT,
    ),
    "6.6 a2a_agents[] by url": Section(
        "arena:a2a_agents.0",
        {"auth": {"token": "t"}, "headers": {"a": "b"}, "headers_from_env": ["A=B"], "timeout_ms": 5, "responses": []},
        _FAR_AGENT,
    ),
    "6.6 auth": Section(
        "arena:a2a_agents.0.auth",
        {"scheme": "Basic", "token": "t", "token_env": "T"},
        {"arena:a2a_agents": [{"name": "a", "url": "https://a.example/a2a", "auth": {}}]},
    ),
    "6.6 skills of a card": Section("arena:a2a_agents.0.card.skills.0", {"id": "other", "name": "n", "description": "d", "tags": ["a"]}, _AGENT),
    "6.6 responses[]": Section(
        "arena:a2a_agents.0.responses.0",
        {"skill": "ask", "match": {"contains": "a"}, "response": {"parts": [{"text": "y"}]}, "error": "e"},
        _AGENT,
    ),
    "6.6 match": Section("arena:a2a_agents.0.responses.0.match", {"contains": "a", "regex": "a+"}, _AGENT),
    "7.1 persona": Section(
        "persona:",
        {
            "id": "other",
            "system_template": "Other.",
            "prompt_activity": "x",
            "fragments": [],
            "required_vars": ["v"],
            "optional_vars": {"v": "w"},
            "goals": ["g"],
            "constraints": ["c"],
            "style": {"verbosity": "short"},
            "voice": "v",
            "defaults": {"temperature": 0.5},
        },
    ),
    "7.1 persona by system_prompt": Section("persona:", {"system_prompt": "Other."}, {"persona:": {"system_prompt": _PERSONA}}),
    "7.1 style": Section(
        "persona:style",
        {
            "verbosity": "short",
            "challenge_level": "low",
            "friction_tags": ["a"],
            "expressive": "e",
            "characterization_rubric": "r",
            "formality": "high",
        },
        {"persona:style": {}},
    ),
    "7.1 defaults": Section("persona:defaults", {"temperature": 0.5, "seed": 1}, {"persona:defaults": {}}),
}
