"""Specs of providers: which module serves a type on a platform, and what of a spec makes a model's endpoint.

Owns the table of types that are built, and how a spec becomes a `RemoteProvider`. Must not know plans, nor who asks.
"""

import importlib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from engine.errors import FeatureNotSupported

if TYPE_CHECKING:
    from engine.providers.credentials import Keys
    from engine.providers.remote import Service

Spec = Mapping[str, Any]
Row = Callable[[Spec, "Keys"], "Service"]

ROWS: Final[Mapping[tuple[str, str], str]] = {
    ("openai", ""): "openai_services:openai",
    ("openai", "azure"): "openai_services:azure",
    ("claude", ""): "anthropic_services:claude",
    ("claude", "azure"): "anthropic_services:claude_on_azure",
    ("claude", "bedrock"): "anthropic_services:claude_on_bedrock",
    ("claude", "vertex"): "anthropic_services:claude_on_vertex",
    ("gemini", ""): "gemini_services:gemini",
    ("gemini", "vertex"): "gemini_services:gemini_on_vertex",
    ("ollama", ""): "openai_services:ollama",
    ("vllm", ""): "openai_services:vllm",
}
"""Type and platform ("" for the vendor's own) of each provider of role llm, with the function of this package that makes its service of a spec.

The modules are imported when a provider is built, not before: most bundles need none.
"""

SERVING_ROWS: Final[Mapping[tuple[str, str], str]] = {
    ("embedding", "openai"): "inference_services:openai_embeddings",
    ("embedding", "gemini"): "inference_services:gemini_embeddings",
    ("embedding", "voyageai"): "inference_services:voyage_embeddings",
    ("embedding", "ollama"): "inference_services:ollama_embeddings",
    ("inference", "huggingface"): "inference_services:huggingface_labels",
}
"""The same for what serves checks, by role and type; all at their vendors' own."""

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def platform_of(spec: Spec) -> str:
    """Return where a model is hosted: bedrock, vertex, azure, or "" for the vendor's own."""
    return str((spec.get("platform") or {}).get("type") or "")


def is_built(spec: Spec) -> bool:
    """Say whether a model of this type, on its platform, can be talked to."""
    return _row(spec) is not None


def service_of(spec: Spec, keys: "Keys") -> "Service":
    """Return the endpoint that a spec describes.

    Raises:
        FeatureNotSupported: the type, on this platform, is not built, or needs an extra that is not installed.
        CredentialMissing: its key is not where it should be.
    """
    kind, platform = str(spec.get("type")), platform_of(spec)
    row = _row(spec)
    if row is None:
        where = f" on {platform}" if platform else ""
        raise FeatureNotSupported(f"cannot ask provider '{spec.get('id', '')}': type {kind}{where} is not built", hint=f"types are: {_types()}")
    module, _, function = row.partition(":")
    make: Row = getattr(importlib.import_module(f"engine.providers.{module}"), function)
    return make(spec, keys)


def _row(spec: Spec) -> str | None:
    kind, platform, role = str(spec.get("type")), platform_of(spec), spec.get("role") or "llm"
    if role == "llm":
        return ROWS.get((kind, platform))
    return None if platform else SERVING_ROWS.get((str(role), kind))


def seconds_of(duration: Any, default: float) -> float:
    """Return a duration of a spec (`30s`, `1m30s`, or a number of seconds) in seconds; `default` where it says none, or 0."""
    if isinstance(duration, int | float):
        return float(duration) or default
    return sum(float(amount) * _SECONDS[unit] for amount, unit in _DURATION.findall(str(duration or ""))) or default


def _types() -> str:
    return ", ".join(f"{kind} on {platform}" if platform else kind for kind, platform in ROWS)
