"""Endpoints that embed or label: OpenAI, Gemini, Voyage AI and Ollama, and Hugging Face.

Owns their addresses, which key each of them takes, and what may be chosen of a model. Must not know how they are asked.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from engine.providers.credentials import ApiKey, Keys
from engine.providers.gemini_services import GOOGLE_AI_URL, KEY_HEADER
from engine.providers.openai_services import OLLAMA_URL, OPENAI_URL
from engine.providers.remote import Service
from engine.providers.wires.embeddings import EmbeddingOptions, GeminiEmbeddings, OpenAiEmbeddings
from engine.providers.wires.huggingface import HuggingFaceLabels

Spec = Mapping[str, Any]

VOYAGE_URL: Final = "https://api.voyageai.com/v1"
HUGGING_FACE_URL: Final = "https://router.huggingface.co/hf-inference/models"

_DEDICATED: Final = ".endpoints.huggingface.cloud"
"""Hosts that serve one model each, at their root."""


def openai_embeddings(spec: Spec, keys: Keys) -> Service:
    """Return OpenAI's endpoint, or that of any server which speaks its protocol; `dimensions` shortens the vectors."""
    return _like_openai(spec, keys, OPENAI_URL, dimensions="dimensions")


def ollama_embeddings(spec: Spec, keys: Keys) -> Service:
    """Return an Ollama server's endpoint."""
    return _like_openai(spec, keys, OLLAMA_URL, dimensions="dimensions")


def voyage_embeddings(spec: Spec, keys: Keys) -> Service:
    """Return Voyage AI's endpoint; `dimensions` shortens the vectors, `input_type` is query or document."""
    return _like_openai(spec, keys, VOYAGE_URL, dimensions="output_dimension", input_type="input_type")


def gemini_embeddings(spec: Spec, keys: Keys) -> Service:
    """Return Google AI's endpoint; `dimensions` shortens the vectors, `input_type` is a task type."""
    url = str(spec.get("base_url") or GOOGLE_AI_URL).rstrip("/")
    wire = GeminiEmbeddings(_options(spec, dimensions="outputDimensionality", input_type="taskType"))
    return Service(wire, url if urlsplit(url).path else f"{url}/v1beta", ApiKey(keys.of(spec), header=KEY_HEADER, scheme=""))


def huggingface_labels(spec: Spec, keys: Keys) -> Service:
    """Return the endpoint of a classifier: its place beside all others, or a host of its own."""
    url = str(spec.get("base_url") or HUGGING_FACE_URL).rstrip("/")
    path = "/" if (urlsplit(url).hostname or "").endswith(_DEDICATED) else f"/{quote(str(spec.get('model') or ''), safe='/')}"
    return Service(HuggingFaceLabels(path, _extra(spec)), url, ApiKey(keys.of(spec)))


def _like_openai(spec: Spec, keys: Keys, default: str, **names: str) -> Service:
    url = str(spec.get("base_url") or default).rstrip("/")
    return Service(OpenAiEmbeddings(_options(spec, **names)), url if urlsplit(url).path else f"{url}/v1", ApiKey(keys.of(spec)))


def _options(spec: Spec, **names: str) -> EmbeddingOptions:
    """Return a model and what is chosen of it; `names` are the vendor's for our keys."""
    more = spec.get("additional_config") or {}
    chosen = {theirs: more[ours] for ours, theirs in names.items() if more.get(ours) is not None}
    return EmbeddingOptions(str(spec.get("model") or ""), {**chosen, **_extra(spec)})


def _extra(spec: Spec) -> Mapping[str, Any]:
    return (spec.get("additional_config") or {}).get("extra_body") or {}
