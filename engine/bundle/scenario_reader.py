"""Reads a scenario's spec: its keys, turns and parts.

Owns the tables of these objects. What holds between a scenario and other files is `crosschecks.py`'s.
"""

import base64
from typing import Any

from yaml.nodes import MappingNode, Node

from engine.bundle.check_reader import checks
from engine.bundle.contexts import ContextPolicy, Relevance, SeedMemory
from engine.bundle.fields import (
    INVALID,
    Table,
    between,
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
    read_object,
    reads,
    record,
    schema_of,
    string,
    string_map,
    strings,
    table_schema,
    word,
)
from engine.bundle.ignored import RELEVANCE, SCENARIO, TOOL_POLICY, TURN
from engine.bundle.model import Chaos, Media, Part, ToolFailure, ToolPolicy, Turn
from engine.bundle.paths import resolve_inside
from engine.bundle.problems import shown
from engine.bundle.resources import resource
from engine.bundle.yamltree import Document, entries

_MEDIA = Table(
    "media",
    {
        "file_path": resource,
        "url": name,
        "data": string,
        "storage_reference": string,
        "mime_type": string,
        "detail": string,
        "caption": string,
        "width": integer(1),
        "height": integer(1),
    },
)
_SOURCES = ("file_path", "url", "data")
MAX_MEDIA_BYTES = 20 * 1024 * 1024
"""What vendors take inline; the reference takes 50 MB of a URL, and no vendor does."""


@reads(lambda: table_schema(_MEDIA))
def _media(document: Document, node: Node, key: str) -> Any:
    del key
    values = read_object(document, node, _MEDIA)
    if values is None:
        return INVALID
    sources = [source for source in _SOURCES if values.get(source)]
    fault, hint = "", ""
    if "storage_reference" in values:
        fault, hint = "a storage_reference leads to a store that only its writer knows", "use file_path, url or data"
    elif len(sources) != 1:
        fault, hint = f"it needs one source, not {len(sources)}", "set file_path, url or data"
    elif "url" in values and not values["url"].startswith(("https://", "http://")):
        fault = f"'{shown(values['url'])}' is no http or https address"
    elif "data" in values and not _is_base64(values["data"]):
        fault = "'data' is not base64"
    elif "file_path" in values and resolve_inside(document.root, values["file_path"]).stat().st_size > MAX_MEDIA_BYTES:
        fault = f"'{shown(values['file_path'])}' is over the limit of {MAX_MEDIA_BYTES // 1024 // 1024} MiB"
    if fault:
        document.error(node, f"cannot read the media: {fault}", hint)
        return INVALID
    return Media(**values)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


@reads(lambda: table_schema(_PART))
def part(document: Document, node: Node, key: str) -> Any:
    """Read one part of a message or of a tool's answer."""
    del key
    values = read_object(document, node, _PART)
    if values is None or "type" not in values:
        return INVALID
    if values["type"] != "text" and "media" not in values:
        if not isinstance(node, MappingNode) or "media" not in entries(document, node):
            document.error(node, f"a part of type {values['type']} needs media", "add media: {file_path, mime_type}")
        return INVALID
    if values["type"] != "text" and not values["media"].mime_type:
        document.error(node, f"the media of a part of type {values['type']} have no mime_type", "such as image/png")
        return INVALID
    return Part(**values, location=document.at(node))


_PART: Table = Table("a part", {"type": one_of("text", "image", "audio", "video", "document"), "text": string, "media": _media}, required=("type",))

_FAILURE = Table(
    "a tool failure",
    {"tool": name, "mode": one_of("error", "timeout", "slow"), "probability": between(0, 1), "message": string},
    required=("tool", "mode"),
)
_CHAOS = Table("`chaos`", {"tool_failures": list_of(record(_FAILURE, ToolFailure, located=False))})

_POLICY = Table(
    TOOL_POLICY,
    {
        "tool_choice": one_of("auto", "required", "none"),
        "max_tool_calls_per_turn": integer(0),
        "max_total_tool_calls": integer(0),
        "blocklist": strings,
        "max_rounds": integer(1),
        "max_cost_usd": between(0, None),
        "max_identical_tool_calls": integer(1),
    },
)
tool_policy = record(_POLICY, ToolPolicy)


@reads({"type": "array", "minItems": 1, "items": schema_of(word)})
def _values(document: Document, node: Node, key: str) -> Any:
    values = list_of(word)(document, node, key)
    if values is INVALID:
        return INVALID
    if not values:
        document.error(node, f"cannot read '{key}': a perturbation without values leaves nothing to run", "give it a value, or remove it")
        return INVALID
    twice = next((value for index, value in enumerate(values) if value in values[:index]), None)
    if twice is not None:
        document.error(node, f"cannot read '{key}': the value '{twice}' stands twice", "remove one of the two")
        return INVALID
    return values


_TURN = Table(
    TURN,
    {
        "role": name,
        "content": string,
        "parts": list_of(part),
        "persona": string,
        "turns": integer(1),
        "max_turns": integer(1),
        "streaming": boolean,
        "assistant_temp": number,
        "user_temp": number,
        "seed": integer(),
        "consent_overrides": map_of(one_of("grant", "deny", "timeout")),
        "perturbations": map_of(_values),
        "chaos": record(_CHAOS, Chaos, located=False),
        "assertions": checks,
    },
    required=("role",),
)
_RELEVANCE = Table(
    RELEVANCE,
    {
        "provider": string,
        "model": string,
        "min_recent_messages": integer(0),
        "always_keep_system_role": boolean,
        "similarity_threshold": between(-1, 1),
        "query_source": one_of("last_user", "last_n", "custom"),
        "last_n_count": integer(1),
        "custom_query": string,
        "cache_embeddings": boolean,
    },
)
_CONTEXT_POLICY = Table(
    "a context policy",
    {
        "token_budget": integer(0),
        "reserve_for_output": integer(0),
        "strategy": one_of("oldest", "summarize", "relevance", "fail"),
        "cache_breakpoints": json_value,
        "relevance": record(_RELEVANCE, Relevance, located=False),
    },
)
_VAD = Table("`vad`", {"silence_threshold_ms": integer(0), "min_speech_ms": integer(0), "max_turn_duration_s": integer(0)})
_DUPLEX = Table(
    "`duplex`",
    {
        "timeout": duration,
        "turn_detection": checked(Table("`turn_detection`", {"mode": one_of("vad", "asm"), "vad": checked(_VAD)})),
        "resilience": checked(
            Table(
                "`resilience`",
                {
                    "max_retries": integer(0),
                    "retry_delay_ms": integer(0),
                    "partial_success_min_turns": integer(0),
                    "ignore_last_turn_session_end": boolean,
                },
            )
        ),
    },
)
_MEMORY = Table("a seed memory", {"content": name, "type": string, "confidence": between(0, 1), "metadata": json_object}, required=("content",))

SCENARIO_TABLE = Table(
    SCENARIO,
    {
        "id": string,
        "task_type": string,
        "description": string,
        "mode": string,
        "labels": string_map,
        "context_metadata": string_map,
        "turns": list_of(record(_TURN, Turn)),
        "context": json_value,
        "constraints": json_value,
        "tool_policy": tool_policy,
        "providers": strings,
        "provider_group": name,
        "required_capabilities": strings,
        "streaming": boolean,
        "context_policy": record(_CONTEXT_POLICY, ContextPolicy),
        "conversation_assertions": checks,
        "duplex": checked(_DUPLEX),
        "voice": string,
        "variables": string_map,
        "trials": integer(1),
        "seed_memories": list_of(record(_MEMORY, SeedMemory, located=False)),
    },
    hints={"tags": "labels belong into metadata.labels"},
)


def read_scenario(document: Document, node: Node) -> dict[str, Any] | None:
    """Read a scenario's spec into the fields of `Scenario`, without `id`, `file` and `location`."""
    values = read_object(document, node, SCENARIO_TABLE)
    if values is not None:
        values.pop("id", None)
    return values
