"""Reads a provider's spec.

Owns its table. Credentials never leave this module as values: a key written into the bundle is dropped from what a plan carries, with a warning.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from yaml.nodes import MappingNode, Node, ScalarNode

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
)
from engine.bundle.ignored import HTTP_TRANSPORT, PROVIDER, STREAM_RETRY
from engine.bundle.model import Pricing, RequestDefaults
from engine.bundle.paths import join, resolve_inside
from engine.bundle.problems import did_you_mean, nearest, shown
from engine.bundle.provider_options import OF_LIVE_AUDIO, OPTIONS
from engine.bundle.resources import find_resource
from engine.bundle.yamltree import Document, entries, to_json
from engine.errors import BundleInvalid
from engine.providers.headers import header_fault, is_credential

PROVIDER_TYPES = ("mock", "openai", "claude", "gemini", "ollama", "vllm", "imagen", "replay", "voyageai", "cartesia", "elevenlabs", "huggingface")
ROLES = ("llm", "tts", "stt", "embedding", "image", "video", "inference")
SUBJECT_ROLES = frozenset({"llm", "image"})
"""Roles of providers that a run tests; the others serve."""

DUPLEX_MOCK_KEYS = ("auto_respond", "response_text", "duplex_scenario", "interrupt_on_turn", "close_after_turns", "close_no_response")
MOCK_KEYS = ("mock_config", "latency_ms", *DUPLEX_MOCK_KEYS)
MAX_LATENCY_MS = 3_600_000
JOB_ANSWERS = "mock_answers"
"""Holds the text of a response file in the spec that a job resolves; a bundle names files instead, so there it is no key."""

_OF_A_MOCK = frozenset(
    ("id", "type", "model", "role", "capabilities", "additional_config", "headers", "rate_limit", "pricing_correct_at", "include_raw_output")
)
"""Keys that a mock reads, or of which is said elsewhere that they have no effect."""

_OTHER_NAMES = {"anthropic": "claude", "google": "gemini", "azure": "openai", "bedrock": "claude", "vertex": "gemini"}


@reads({"enum": list(PROVIDER_TYPES)})
def _type(document: Document, node: Node, key: str) -> Any:
    text = name(document, node, key)
    if text is INVALID or text in PROVIDER_TYPES:
        return text
    other = _OTHER_NAMES.get(text.lower())
    hint = f"did you mean '{other}'?" if other else did_you_mean(text, PROVIDER_TYPES, otherwise="types are")
    document.error(node, f"unknown provider type '{shown(text)}'", hint)
    return INVALID


@reads({"type": "string", "format": "uri"})
def _base_url(document: Document, node: Node, key: str) -> Any:
    text = string(document, node, key)
    if text and text is not INVALID and not is_base_url(text):
        document.error(node, f"cannot read '{key}': '{shown(text)}' is no address of http or https", "write scheme, host and path: https://host/v1")
        return INVALID
    return text


def is_base_url(text: str) -> bool:
    """Say whether paths can follow an address: it is of http or https, and has a host, no credential, no query and no fragment."""
    try:
        parts = urlsplit(text)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_whole and parts.scheme in ("http", "https") and "@" not in parts.netloc and not (parts.query or parts.fragment) and text.isprintable()


@reads(lambda: schema_of(string_map))
def _headers(document: Document, node: Node, key: str) -> Any:
    values = string_map(document, node, key)
    if isinstance(node, MappingNode):
        for header, (place, value) in entries(document, node).items():
            text = str(value.value) if isinstance(value, ScalarNode) else ""
            if fault := header_fault(header, text):
                document.error(place, f"cannot send header '{shown(header)}': {fault}", "leave it out")
            elif is_credential(header, text):
                message = f"header '{shown(header)}' looks like a credential, which everyone who can read the repository could read: it is not sent"
                document.problems.warning(document.at(place), message, "use credential_env, which names a variable that holds it")
    return values


_RETRY = Table(
    STREAM_RETRY,
    {
        "enabled": boolean,
        "max_attempts": integer(0),
        "initial_delay": duration,
        "max_delay": duration,
        "retry_window": json_value,
        "budget": checked(Table("`budget`", {"rate_per_sec": number, "burst": integer(0)})),
    },
)
_DEFAULTS = Table("a provider's defaults", {"temperature": number, "top_p": number, "max_tokens": integer(1), "prompt_caching": json_value})
_PRICING = Table("`pricing`", {"input_cost_per_1k": between(0, None), "output_cost_per_1k": between(0, None)})
_CREDENTIAL = Table("`credential`", {"api_key": string, "credential_file": string, "credential_env": string})
_PLATFORM = Table(
    "`platform`",
    {"type": one_of("bedrock", "vertex", "azure"), "region": string, "project": string, "endpoint": string, "additional_config": json_object},
)
RECORDING_KEYS: Mapping[str, str] = {"recording": "", "arena_output": "arena_output"}
"""Keys of a replay that name a recording, each with the kind that it must be; "": the file's name says."""

_REPLAY = Table(
    "additional_config of a replay",
    {
        **dict.fromkeys(RECORDING_KEYS, string),
        "timing": one_of("instant", "realtime", "accelerated"),
        "speed": between(0.001, None),
        "match": one_of("turn", "content"),
    },
)
_TRANSPORT = Table(HTTP_TRANSPORT, {"max_conns_per_host": integer(0), "max_idle_conns_per_host": integer(0), "idle_conn_timeout": duration})

PROVIDER_TABLE = Table(
    PROVIDER,
    {
        "id": string,
        "type": _type,
        "model": string,
        "role": one_of(*ROLES),
        "voice": string,
        "sample_rate": integer(1),
        "audio_files": list_of(string),
        "base_url": _base_url,
        "headers": _headers,
        "rate_limit": checked(Table("`rate_limit`", {"rps": number, "burst": integer(0)})),
        "defaults": record(_DEFAULTS, RequestDefaults, located=False),
        "pricing": record(_PRICING, Pricing, located=False),
        "pricing_correct_at": string,
        "include_raw_output": boolean,
        "additional_config": json_object,
        "credential": checked(_CREDENTIAL),
        "platform": checked(_PLATFORM),
        "capabilities": strings,
        "unsupported_params": strings,
        "request_timeout": duration,
        "stream_idle_timeout": duration,
        "stream_retry": checked(_RETRY),
        "stream_max_concurrent": integer(0),
        "http_transport": checked(_TRANSPORT),
    },
    required=("type",),
    hints={"capability": "it is a list now: capabilities", "impl": "it was removed from the format: write `type`"},
)
_KEPT = ("type", "model", "role", "defaults", "pricing", "capabilities", "unsupported_params", "additional_config")


def read_provider(document: Document, node: Node, ident: str) -> dict[str, Any] | None:
    """Read a provider's spec into the fields of `Provider`, without `id`, `file`, `group` and `location`."""
    values = read_object(document, node, PROVIDER_TABLE)
    if values is None or "type" not in values:
        return None
    spec = _given(to_json(document, node))
    fields = {key: values[key] for key in _KEPT if key in values}
    fields["spec"] = spec
    spec["id"] = ident
    _drop_key(document, node, spec)
    _drop_credentials(spec)
    _say_what_a_type_ignores(document, values, node)
    if values["type"] == "mock":
        _say_what_a_mock_ignores(document, entries(document, node) if isinstance(node, MappingNode) else {})
    config = entries(document, node).get("additional_config") if isinstance(node, MappingNode) else None
    if config is not None and isinstance(config[1], MappingNode):
        keys = entries(document, config[1])
        spec["additional_config"].pop(JOB_ANSWERS, None)
        if values["type"] == "mock":
            _check_mock_keys(document, keys)
        elif values["type"] in OPTIONS:
            _check_options(document, keys, values["type"])
        elif values["type"] == "replay":
            read_object(document, config[1], _REPLAY)
            _resolve_recording(document, keys, spec["additional_config"])
        if "mock_config" in keys:
            _resolve_mock_config(document, keys["mock_config"][1], fields)
    return fields


def _given(value: Any) -> Any:
    """Return a spec without what was left empty, which counts as not given."""
    if not isinstance(value, dict):
        return value
    return {key: entry if key == "additional_config" else _given(entry) for key, entry in value.items() if entry is not None}


def _drop_key(document: Document, node: Node, spec: dict[str, Any]) -> None:
    credential = spec.get("credential")
    if isinstance(credential, dict) and credential.pop("api_key", None):
        place = document.at(entries(document, node)["credential"][0]) if isinstance(node, MappingNode) else document.at(node)
        document.problems.warning(
            place, "'api_key' in the bundle can be read by everyone who can read the repository, and is not used", "use credential_env"
        )


def _drop_credentials(spec: dict[str, Any]) -> None:
    headers = spec.get("headers")
    if isinstance(headers, dict):
        spec["headers"] = {header: text for header, text in headers.items() if not is_credential(header, str(text))}


def _say_what_a_type_ignores(document: Document, values: Mapping[str, Any], node: Node) -> None:
    """Note what only some vendors have a use for."""
    if not isinstance(node, MappingNode):
        return
    caching = getattr(values.get("defaults"), "prompt_caching", None) is not None
    if caching and values["type"] not in ("claude", "mock"):
        place = entries(document, node)["defaults"][0]
        document.problems.note(
            document.at(place), f"'prompt_caching' has no effect on type {values['type']}: who serves it caches without being asked"
        )
    platform = values.get("platform") or {}
    if platform.get("type") == "azure":
        for key in ("region", "project"):
            if key in platform:
                place = entries(document, node)["platform"][0]
                document.problems.note(document.at(place), f"'{key}' of `platform` has no effect on azure: its endpoint says where the model is")


def _say_what_a_mock_ignores(document: Document, keys: Mapping[str, tuple[Node, Node]]) -> None:
    for key, (node, _) in keys.items():
        if key == "pricing":
            document.problems.warning(document.at(node), "'pricing' of a mock has no effect: its tokens have one price, 0.01 USD for 1,000")
        elif key in PROVIDER_TABLE.keys and key not in _OF_A_MOCK:
            document.problems.note(document.at(node), f"'{key}' has no effect on a mock")


def _check_mock_keys(document: Document, keys: Mapping[str, tuple[Node, Node]]) -> None:
    for key, (node, _) in keys.items():
        if key in DUPLEX_MOCK_KEYS:
            document.problems.note(document.at(node), f"'{key}' has an effect in duplex scenarios only")
        elif key == "latency_ms":
            between(0, MAX_LATENCY_MS)(document, keys[key][1], key)
        elif key in MOCK_KEYS:
            continue
        elif nearest(key, MOCK_KEYS):
            document.error(node, f"unknown key '{shown(key)}' in additional_config of a mock", did_you_mean(key, MOCK_KEYS))
        else:
            document.problems.warning(document.at(node), f"'{shown(key)}' of additional_config has no effect: the mock provider does not know it")


def _check_options(document: Document, keys: Mapping[str, tuple[Node, Node]], kind: str) -> None:
    known = OPTIONS[kind]
    for key, (node, value) in keys.items():
        if key in known:
            known[key](document, value, key)
        elif key in OF_LIVE_AUDIO:
            document.problems.note(document.at(node), f"'{key}' of additional_config has no effect: it is about live audio")
        elif key not in MOCK_KEYS:
            hint = did_you_mean(key, known, otherwise="its keys are")
            document.problems.warning(document.at(node), f"'{shown(key)}' of additional_config has no effect on type {kind}", hint)


def _resolve_recording(document: Document, keys: Mapping[str, tuple[Node, Node]], config: dict[str, Any]) -> None:
    """Make the recording's path relative to the root: beside the file that names it, or in the config directory if it is there.

    One that is not there is no fault of the bundle's yet: only who asks the provider needs it.
    """
    for key in RECORDING_KEYS.keys() & keys.keys():
        reference = name(document, keys[key][1], key)
        if reference is INVALID:
            continue
        paths = [path for base in (document.directory, document.config_dir) if (path := join(base, reference)) is not None]
        if not paths:
            document.error(keys[key][1], f"cannot read '{shown(reference)}': the path leaves the bundle", "name a file inside the bundle")
            continue
        try:
            config[key] = next((path for path in paths if resolve_inside(document.root, path).is_file()), paths[0])
        except BundleInvalid as error:
            document.error(keys[key][1], error.message, error.hint)


def _resolve_mock_config(document: Document, node: Node, fields: dict[str, Any]) -> None:
    reference = name(document, node, "mock_config")
    found = INVALID if reference is INVALID else find_resource(document, node, reference)
    if found is not INVALID:
        fields["mock_config"] = found
        fields["spec"]["additional_config"]["mock_config"] = found
        fields["additional_config"] = {**fields["additional_config"], "mock_config": found}
