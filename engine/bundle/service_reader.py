"""Reads what a bundle reaches outside of a conversation: the tables of `http`, `exec`, MCP servers, A2A agents and programs that evaluate.

What can be known to be wrong before anything is called is a problem here. Must not know how any of it is called.
"""

import re
from collections.abc import Mapping
from typing import Any

from yaml.nodes import MappingNode, Node, SequenceNode

from engine.bundle.fields import (
    INVALID,
    Table,
    boolean,
    integer,
    json_object,
    json_value,
    list_of,
    map_of,
    name,
    one_of,
    read_object,
    reads,
    record,
    string,
    string_map,
    strings,
    table_schema,
)
from engine.bundle.ignored import AGENT_CARD, AGENT_SKILL, MCP_SERVER
from engine.bundle.paths import join
from engine.bundle.problems import shown
from engine.bundle.services import A2aAgent, AgentCard, AgentRule, AgentSkill, Command, HttpCall, McpServer, NameFilter
from engine.bundle.yamltree import Document

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOOL_WORD = re.compile(r"[A-Za-z0-9_.-]+")
_SCHEMES = ("http://", "https://")


@reads({"type": "string"})
def _jmespath(document: Document, node: Node, key: str) -> Any:
    expression = string(document, node, key)
    if expression is INVALID or not expression:
        return expression
    import jmespath  # noqa: PLC0415 - 30 ms that only bundles with mappings need
    from jmespath.exceptions import JMESPathError  # noqa: PLC0415

    try:
        jmespath.compile(expression)
    except JMESPathError as error:
        document.error(node, f"cannot read '{key}': '{shown(expression)}' is not JMESPath: {str(error).splitlines()[0]}")
        return INVALID
    return expression


@reads({"type": "string", "examples": list(METHODS)})
def _method(document: Document, node: Node, key: str) -> Any:
    value = string(document, node, key)
    if value is not INVALID and value.upper() not in METHODS:
        document.error(node, f"cannot read '{key}': it must be one of {', '.join(METHODS)}, not '{shown(value)}'")
        return INVALID
    return value if value is INVALID else value.upper()


@reads({"type": "string", "pattern": "^(https?://|\\{\\{)"})
def _url(document: Document, node: Node, key: str) -> Any:
    value = name(document, node, key)
    if value is not INVALID and not value.startswith(_SCHEMES) and not value.startswith("{{"):
        document.error(node, f"cannot read '{key}': '{shown(value)}' is not an address of http or https")
        return INVALID
    return value


@reads({"type": "array", "items": {"type": "string", "pattern": "^[^=]+=[A-Za-z_][A-Za-z0-9_]*$"}})
def _headers_from_env(document: Document, node: Node, key: str) -> Any:
    entries = strings(document, node, key)
    if entries is INVALID:
        return INVALID
    pairs = []
    for entry in entries:
        header, _, variable = entry.partition("=")
        if not header.strip() or _VARIABLE.fullmatch(variable.strip()) is None:
            document.error(node, f"cannot read '{key}': '{shown(entry)}' is not Header=VARIABLE")
            return INVALID
        pairs.append((header.strip(), variable.strip()))
    return tuple(pairs)


@reads({"type": ["object", "array"], "items": {"type": "string"}, "additionalProperties": {"type": "string"}})
def environment(document: Document, node: Node, key: str) -> Any:
    """Read variables: an object of values, or a list of `NAME` (passed on) and `NAME=value`; returns name -> value, None for one that is passed on."""
    if isinstance(node, MappingNode):
        return string_map(document, node, key)
    if not isinstance(node, SequenceNode):
        document.error(node, f"cannot read '{key}': it must be an object of variables, or a list of names")
        return INVALID
    entries = strings(document, node, key)
    if entries is INVALID:
        return INVALID
    found: dict[str, str | None] = {}
    for entry in entries:
        variable, equals, value = entry.partition("=")
        if _VARIABLE.fullmatch(variable) is None:
            document.error(node, f"cannot read '{key}': '{shown(variable)}' is not the name of a variable")
            return INVALID
        found[variable] = value if equals else None
    return found


@reads({"type": "string", "pattern": f"^{_TOOL_WORD.pattern}$"})
def _word(document: Document, node: Node, key: str) -> Any:
    value = name(document, node, key)
    if value is not INVALID and _TOOL_WORD.fullmatch(value) is None:
        document.error(
            node, f"cannot read '{key}': '{shown(value)}' has characters that no tool's name may have", "use letters, digits, '_', '-' and '.'"
        )
        return INVALID
    return value


_REQUEST = record(
    Table(
        "`request`",
        {
            "query_params": strings,
            "header_params": string_map,
            "body_mapping": _jmespath,
            "exclude": strings,
            "static_query": json_object,
            "static_headers": string_map,
            "static_body": json_object,
        },
    ),
    dict,
    located=False,
)
_RESPONSE = record(Table("`response`", {"body_mapping": _jmespath}), dict, located=False)
_MULTIMODAL = record(Table("`multimodal`", {"enabled": boolean, "accept_types": strings}), dict, located=False)
_HTTP = Table(
    "`http`",
    {
        "url": _url,
        "method": _method,
        "headers": string_map,
        "headers_from_env": _headers_from_env,
        "timeout_ms": integer(0),
        "redact": strings,
        "request": _REQUEST,
        "response": _RESPONSE,
        "multimodal": _MULTIMODAL,
    },
    required=("url",),
)
_EXEC = Table(
    "`exec`",
    {"command": name, "args": strings, "env": environment, "runtime": one_of("exec", "server"), "timeout_ms": integer(0), "sandbox": json_value},
    required=("command",),
)
_FILTER = record(Table("`tool_filter`", {"allowlist": strings, "blocklist": strings}), dict, located=False)
_MCP = Table(
    MCP_SERVER,
    {
        "name": _word,
        "command": name,
        "args": strings,
        "env": environment,
        "working_dir": name,
        "url": _url,
        "headers": string_map,
        "source": json_value,
        "scope": one_of("run", "scenario", "session"),
        "source_args": json_value,
        "transport": one_of("stdio", "sse", "streamable_http"),
        "tool_filter": _FILTER,
        "timeout_ms": integer(0),
    },
    required=("name",),
)


@reads(lambda: table_schema(_HTTP))
def http_call(document: Document, node: Node, key: str) -> Any:
    """Read the `http` of a tool."""
    del key
    values = read_object(document, node, _HTTP)
    if values is None or "url" not in values:
        return INVALID
    request = values.pop("request", {})
    response, multimodal = values.pop("response", {}), values.pop("multimodal", {})
    return HttpCall(
        **values,
        **request,
        response_mapping=response.get("body_mapping", ""),
        media=multimodal.get("enabled", False),
        accept_types=multimodal.get("accept_types", ()),
        location=document.at(node),
    )


@reads(lambda: table_schema(_EXEC))
def command(document: Document, node: Node, key: str) -> Any:
    """Read the `exec` of a tool, or a program that evaluates."""
    del key
    values = read_object(document, node, _EXEC)
    if values is None or "command" not in values:
        return INVALID
    server = values.pop("runtime", "exec") == "server"
    return Command(**values, server=server, directory=document.directory, location=document.at(node))


@reads(lambda: table_schema(_MCP))
def mcp_server(document: Document, node: Node, key: str) -> Any:
    """Read an MCP server."""
    del key
    values = read_object(document, node, _MCP)
    if values is None or "name" not in values:
        return INVALID
    ways = [way for way in ("command", "url", "source") if values.get(way)]
    if len(ways) != 1:
        document.error(node, f"cannot read the MCP server '{values['name']}': it must have exactly one of command, url and source")
        return INVALID
    for idle in {"command": ("headers",), "url": ("args", "env", "working_dir")}.get(ways[0], ()):
        if idle in values:
            document.problems.warning(document.at(node), f"'{idle}' of the MCP server '{values['name']}' has no effect: it has a {ways[0]}")
    transport = _transport(document, node, values, ways[0])
    directory = join(document.directory, values["working_dir"]) if "working_dir" in values else document.directory
    if transport is None or directory is None:
        if directory is None:
            document.error(node, f"cannot read 'working_dir' of the MCP server '{values['name']}': the path leaves the bundle")
        return INVALID
    chosen: Mapping[str, Any] = values.get("tool_filter", {})
    place, timeout = document.at(node), values.get("timeout_ms", 0)
    program = None
    if ways[0] == "command":
        program = Command(
            values["command"], values.get("args", ()), values.get("env", {}), directory, server=True, timeout_ms=timeout, location=place
        )
    return McpServer(
        values["name"],
        transport,
        command=program,
        url=values.get("url", ""),
        headers=values.get("headers", {}),
        source=str(values["source"]) if ways[0] == "source" else "",
        tools=NameFilter(chosen.get("allowlist", ()), chosen.get("blocklist", ())),
        timeout_ms=timeout,
        location=place,
    )


def _transport(document: Document, node: Node, values: Mapping[str, Any], way: str) -> str | None:
    fitting = {"command": ("stdio",), "url": ("sse", "streamable_http"), "source": ("", "stdio", "sse", "streamable_http")}[way]
    chosen = values.get("transport", fitting[0])
    if chosen not in fitting:
        document.error(node, f"cannot read the MCP server '{values['name']}': transport {chosen} does not go with {way}")
        return None
    return "" if way == "source" else str(chosen)


_SKILL = record(
    Table(
        AGENT_SKILL,
        {
            "id": name,
            "name": string,
            "description": string,
            "tags": strings,
            "examples": json_value,
            "input_modes": strings,
            "output_modes": strings,
        },
        required=("id",),
    ),
    lambda **values: AgentSkill(**{key: value for key, value in values.items() if key in AgentSkill.__slots__}),
    located=False,
)
_CARD = Table(
    AGENT_CARD,
    {
        "name": name,
        "description": string,
        "version": string,
        "url": string,
        "provider": json_value,
        "capabilities": json_value,
        "default_input_modes": strings,
        "default_output_modes": strings,
        "defaultInputModes": strings,
        "defaultOutputModes": strings,
        "skills": list_of(_SKILL),
    },
    required=("name",),
)
_MATCH = record(Table("`match`", {"contains": string, "regex": string}), dict, located=False)
_PART = record(Table("a part of an agent's answer", {"text": string}, required=("text",)), dict, located=False)
_RESPONSE_PARTS = record(Table("`response`", {"parts": list_of(_PART)}, required=("parts",)), dict, located=False)
_RULE = Table("an answer of an agent", {"skill": string, "match": _MATCH, "response": _RESPONSE_PARTS, "error": string})
_AUTH = record(Table("`auth`", {"scheme": name, "token": string, "token_env": name}), dict, located=False)
_SKILL_FILTER = record(Table("`skill_filter`", {"allowlist": strings, "blocklist": strings}), dict, located=False)


@reads(lambda: table_schema(_CARD))
def _card(document: Document, node: Node, key: str) -> Any:
    del key
    values = read_object(document, node, _CARD)
    if values is None or "name" not in values:
        return INVALID
    modes = values.get("default_input_modes") or values.get("defaultInputModes") or ()
    return AgentCard(values["name"], values.get("skills", ()), values.get("description", ""), modes)


@reads(lambda: table_schema(_RULE))
def _rule(document: Document, node: Node, key: str) -> Any:
    del key
    values = read_object(document, node, _RULE)
    if values is None:
        return INVALID
    if ("response" in values) == ("error" in values):
        document.error(node, "an answer of an agent must have either a response or an error")
        return INVALID
    match, pattern = values.get("match", {}), values.get("match", {}).get("regex", "")
    if pattern:
        from foundation.patterns import compile_pattern  # noqa: PLC0415 - RE2 only where there is a pattern

        try:
            compile_pattern(pattern)
        except ValueError as error:
            document.error(node, f"cannot read 'regex' of an agent's answer: {error}")
            return INVALID
    texts = tuple(part["text"] for part in values.get("response", {}).get("parts", ()))
    return AgentRule(values.get("skill", ""), match.get("contains", ""), pattern, texts, values.get("error", ""))


_A2A = Table(
    "an A2A agent",
    {
        "name": name,
        "card": _card,
        "responses": list_of(_rule),
        "url": _url,
        "auth": _AUTH,
        "headers": string_map,
        "headers_from_env": _headers_from_env,
        "timeout_ms": integer(0),
        "skill_filter": _SKILL_FILTER,
    },
    required=("name",),
)


@reads(lambda: table_schema(_A2A))
def a2a_agent(document: Document, node: Node, key: str) -> Any:
    """Read an A2A agent."""
    del key
    values = read_object(document, node, _A2A)
    if values is None or "name" not in values:
        return INVALID
    if ("card" in values) == ("url" in values):
        document.error(node, f"cannot read the agent '{values['name']}': it must have either a card (a mock) or a url (a remote agent)")
        return INVALID
    idle: list[str] = [each for each in ("auth", "headers", "headers_from_env", "timeout_ms") if "card" in values and each in values]
    idle += ["responses"] if "url" in values and "responses" in values else []
    for each in idle:
        document.problems.warning(
            document.at(node), f"'{each}' of the agent '{values['name']}' has no effect on {'a mock' if 'card' in values else 'a remote agent'}"
        )
    chosen, auth = values.pop("skill_filter", {}), values.pop("auth", {})
    return A2aAgent(
        rules=values.pop("responses", ()),
        skills=NameFilter(chosen.get("allowlist", ()), chosen.get("blocklist", ())),
        **values,
        **auth,
        location=document.at(node),
    )


commands = map_of(command)
"""Reads programs by name (`runtime.evals`)."""
