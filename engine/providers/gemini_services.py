"""Endpoints that speak Google's generateContent: Google AI, and Vertex.

Owns their addresses and which key each of them takes. Must not know how they are asked.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from engine.providers.cloud_hosts import vertex_place
from engine.providers.clouds import vertex_signer
from engine.providers.credentials import ApiKey, Keys
from engine.providers.remote import Service
from engine.providers.wires.gemini import Gemini, GeminiOptions

Spec = Mapping[str, Any]

GOOGLE_AI_URL: Final = "https://generativelanguage.googleapis.com/v1beta"
KEY_HEADER: Final = "x-goog-api-key"

_THINKING: Final = {"include_thoughts": "includeThoughts", "thinking_budget": "thinkingBudget", "thinking_level": "thinkingLevel"}


def gemini(spec: Spec, keys: Keys) -> Service:
    """Return Google AI's endpoint, or that of a gateway, whose `base_url` is what stands before `/models`."""
    url = str(spec.get("base_url") or GOOGLE_AI_URL).rstrip("/")
    if not urlsplit(url).path:
        url = f"{url}/v1beta"
    return Service(_wire(spec), url, ApiKey(keys.of(spec), header=KEY_HEADER, scheme=""))


def gemini_on_vertex(spec: Spec, keys: Keys) -> Service:
    """Return Vertex's endpoint of a project in `platform.region`.

    Raises:
        FeatureNotSupported: it has no project or region, or what signs is not installed.
        CredentialMissing: what it names to sign with is not there.
    """
    url = f"{vertex_place(spec, 'v1beta1')}/publishers/google"
    if written := spec.get("base_url"):
        url = str(written).rstrip("/")
    return Service(_wire(spec), url, vertex_signer(spec, keys, url))


def _wire(spec: Spec) -> Gemini:
    more = spec.get("additional_config") or {}
    capabilities = spec.get("capabilities") or ()
    return Gemini(
        GeminiOptions(
            model=str(spec.get("model") or ""),
            thinking={theirs: more[ours] for ours, theirs in _THINKING.items() if more.get(ours) is not None},
            modalities=tuple(str(kind).upper() for kind in more.get("response_modalities") or ()),
            has_schemas=not capabilities or "json" in capabilities,
            unsupported=frozenset(spec.get("unsupported_params") or ()),
            extra=more.get("extra_body") or {},
        )
    )
