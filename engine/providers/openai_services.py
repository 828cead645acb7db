"""Endpoints that speak OpenAI's protocols: OpenAI itself, Azure, Ollama, vLLM, and any other base URL.

Owns their addresses and which protocol, which limit and which keys each of them takes. Must not know how they are asked.
"""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from engine.errors import FeatureNotSupported
from engine.providers.credentials import ApiKey, Keys, Signer
from engine.providers.remote import Service
from engine.providers.wire import Wire
from engine.providers.wires.openai_chat import OpenAiChat, OpenAiOptions

Spec = Mapping[str, Any]

OPENAI_URL: Final = "https://api.openai.com/v1"
OLLAMA_URL: Final = "http://localhost:11434"
VLLM_URL: Final = "http://localhost:8000"
AZURE_API_VERSION: Final = "2024-10-21"

_OPENAI_HOST: Final = re.compile(r"(.+\.)?openai\.com")
_RESPONSES_ONLY: Final = re.compile(r"o\d+(-\w+)*-pro|gpt-5(\.\d+)?-pro|.*-deep-research|.*codex.*|computer-use.*")
"""Models that OpenAI serves by its responses protocol alone."""

_REASONING: Final = re.compile(r"(o[1-9]|gpt-5)(?!.*-chat)")
"""Models that refuse `temperature` and `top_p`, and `max_tokens`."""

_SNAPSHOT: Final = re.compile(r"-\d{4}-\d{2}-\d{2}$")
_GUIDED: Final = ("guided_json", "guided_choice", "guided_regex", "guided_grammar", "top_k", "min_p", "repetition_penalty", "chat_template_kwargs")


def openai(spec: Spec, keys: Keys) -> Service:
    """Return OpenAI's endpoint, or that of any server which speaks its protocol."""
    written = str(spec.get("base_url") or "")
    is_openai = not written or _OPENAI_HOST.fullmatch(urlsplit(written).hostname or "") is not None
    model = str(spec.get("model") or "")
    mode = _mode(spec) or ("responses" if is_openai and _RESPONSES_ONLY.match(_SNAPSHOT.sub("", model)) else "chat")
    extra = _chosen(spec, "parallel_tool_calls", "reasoning_effort")
    reasons = is_openai and _REASONING.match(model) is not None
    limit = "max_completion_tokens" if is_openai else "max_tokens"
    wire = _wire(spec, mode, limit=limit, extra=extra, refused=frozenset(("temperature", "top_p")) if reasons else frozenset())
    return Service(wire, _with_version(written or OPENAI_URL), ApiKey(keys.of(spec)))


def ollama(spec: Spec, keys: Keys) -> Service:
    """Return an Ollama server's endpoint."""
    wire = _wire(spec, "chat", limit="max_tokens", extra=_chosen(spec, "keep_alive", "reasoning_effort"))
    return Service(wire, _with_version(str(spec.get("base_url") or OLLAMA_URL)), ApiKey(keys.of(spec)))


def vllm(spec: Spec, keys: Keys) -> Service:
    """Return a vLLM server's endpoint."""
    wire = _wire(spec, "chat", limit="max_tokens", extra=_chosen(spec, "parallel_tool_calls", *_GUIDED))
    return Service(wire, _with_version(str(spec.get("base_url") or VLLM_URL)), ApiKey(keys.of(spec)))


def azure(spec: Spec, keys: Keys) -> Service:
    """Return the endpoint of a deployment on Azure: with a key, else by whoever Azure knows this process as.

    `platform.endpoint` (or `base_url`) is the resource's. The path names the deployment (`deployment`, else the model) and the `api_version`; that of
    `v1`, and the responses protocol, have neither.
    """
    endpoint = str((spec.get("platform") or {}).get("endpoint") or spec.get("base_url") or "").rstrip("/")
    if not endpoint:
        raise FeatureNotSupported(f"cannot ask provider '{spec.get('id', '')}': it names no endpoint on azure", hint="set platform.endpoint")
    more = {**(spec.get("additional_config") or {}), **((spec.get("platform") or {}).get("additional_config") or {})}
    model = str(spec.get("model") or "")
    mode, version = _mode(spec) or "chat", str(more.get("api_version") or AZURE_API_VERSION)
    reasons = _REASONING.match(model) is not None
    path = f"/openai/deployments/{quote(str(more.get('deployment') or model), safe='')}/chat/completions?api-version={quote(version, safe='')}"
    base = endpoint
    if mode == "responses" or version == "v1" or endpoint.endswith("/v1"):
        base, path = (endpoint if endpoint.endswith("/v1") else f"{endpoint}/openai/v1"), ""
    wire = _wire(
        {**spec, "model": str(more.get("deployment") or model)},
        mode,
        path=path,
        limit="max_completion_tokens" if reasons else "max_tokens",
        extra=_chosen(spec, "parallel_tool_calls", "reasoning_effort"),
        refused=frozenset(("temperature", "top_p")) if reasons else frozenset(),
    )
    return Service(wire, base, _azure_signer(spec, keys))


def _azure_signer(spec: Spec, keys: Keys) -> Signer:
    if key := keys.of(spec):
        return ApiKey(key, header="api-key", scheme="")
    from engine.providers.clouds import azure_signer  # noqa: PLC0415 - only where there is no key

    return azure_signer(spec, keys)


def _wire(spec: Spec, mode: str, *, limit: str, extra: Mapping[str, Any], path: str = "", refused: frozenset[str] = frozenset()) -> Wire:
    capabilities = spec.get("capabilities") or ()
    options = OpenAiOptions(
        model=str(spec.get("model") or ""),
        limit_key=limit,
        unsupported=frozenset(spec.get("unsupported_params") or ()) | refused,
        has_schemas=not capabilities or "json" in capabilities,
        extra={**extra, **((spec.get("additional_config") or {}).get("extra_body") or {})},
    )
    if mode == "responses":
        from engine.providers.wires.openai_responses import OpenAiResponses  # noqa: PLC0415 - few providers need it

        return OpenAiResponses(options)
    return OpenAiChat(options, path or "/chat/completions")


def _mode(spec: Spec) -> str:
    return str((spec.get("additional_config") or {}).get("api_mode") or "")


def _chosen(spec: Spec, *names: str) -> dict[str, Any]:
    more = spec.get("additional_config") or {}
    return {name: more[name] for name in names if more.get(name) is not None}


def _with_version(url: str) -> str:
    """Return a base URL without a slash at its end, and with the protocol's version where it has no path at all: servers are often named so."""
    url = url.rstrip("/")
    return url if urlsplit(url).path else f"{url}/v1"
