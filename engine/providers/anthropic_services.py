"""Endpoints that speak Anthropic's protocol: Anthropic itself and gateways, Amazon Bedrock, Google Vertex, Microsoft Foundry.

Owns their addresses and which key each of them takes. Must not know how they are asked.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from engine.providers.aws_stream import AwsEventReader
from engine.providers.cloud_hosts import azure_endpoint, bedrock_host, vertex_place
from engine.providers.clouds import azure_signer, bedrock_signer, vertex_signer
from engine.providers.credentials import ApiKey, Keys
from engine.providers.remote import Service
from engine.providers.wires.anthropic import Anthropic, AnthropicOptions

Spec = Mapping[str, Any]

ANTHROPIC_URL: Final = "https://api.anthropic.com/v1"
_KEY_HEADER: Final = "x-api-key"
_AZURE_SCOPE: Final = "https://ai.azure.com/.default"


def claude(spec: Spec, keys: Keys) -> Service:
    """Return Anthropic's endpoint, or that of a gateway, whose `base_url` is what stands before `/messages`."""
    url = str(spec.get("base_url") or ANTHROPIC_URL).rstrip("/")
    if not urlsplit(url).path:
        url = f"{url}/v1"
    return Service(_wire(spec), url, ApiKey(keys.of(spec), header=_KEY_HEADER, scheme=""))


def claude_on_bedrock(spec: Spec, keys: Keys) -> Service:
    """Return Bedrock's endpoint in `platform.region`; the model is an id, an inference profile or an ARN of Bedrock's.

    Raises:
        FeatureNotSupported: it has no region, or what signs is not installed.
        CredentialMissing: what it names to sign with is not there.
    """
    url, region = bedrock_host(spec)
    return Service(_wire(spec, "bedrock"), url, bedrock_signer(spec, keys, url, region), AwsEventReader)


def claude_on_azure(spec: Spec, keys: Keys) -> Service:
    """Return the endpoint of a resource of Azure's, `platform.endpoint`: with a key, else by whoever Entra knows this process as.

    Raises:
        FeatureNotSupported: it has no endpoint, or what signs is not installed.
        CredentialMissing: what it names to sign with is not there.
    """
    url = f"{azure_endpoint(spec)}/anthropic/v1"
    key = keys.of(spec)
    return Service(_wire(spec), url, ApiKey(key, header=_KEY_HEADER, scheme="") if key else azure_signer(spec, keys, _AZURE_SCOPE))


def claude_on_vertex(spec: Spec, keys: Keys) -> Service:
    """Return Vertex's endpoint of a project in `platform.region`.

    Raises:
        FeatureNotSupported: it has no project or region, or what signs is not installed.
        CredentialMissing: what it names to sign with is not there.
    """
    url = f"{vertex_place(spec, 'v1')}/publishers/anthropic/models"
    if written := spec.get("base_url"):
        url = str(written).rstrip("/")
    return Service(_wire(spec, "vertex"), url, vertex_signer(spec, keys, url))


def _caches(wish: Any) -> bool:
    """Return whether a spec's `prompt_caching` asks for it: true, or an object that does not say `enabled: false`."""
    return bool(wish.get("enabled", True)) if isinstance(wish, Mapping) else bool(wish) and wish not in ("off", "none", "false")


def _wire(spec: Spec, platform: str = "") -> Anthropic:
    more = spec.get("additional_config") or {}
    capabilities = spec.get("capabilities") or ()
    return Anthropic(
        AnthropicOptions(
            model=str(spec.get("model") or ""),
            platform=platform,
            thinking_budget=more.get("thinking_budget"),
            effort=str(more.get("effort") or ""),
            has_schemas=not capabilities or "json" in capabilities,
            caches=_caches((spec.get("defaults") or {}).get("prompt_caching")),
            unsupported=frozenset(spec.get("unsupported_params") or ()),
            extra=more.get("extra_body") or {},
        )
    )
