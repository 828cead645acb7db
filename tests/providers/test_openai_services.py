"""Endpoints that speak OpenAI's protocols: their addresses, and what each takes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.errors import FeatureNotSupported
from engine.providers.credentials import Keys
from engine.providers.port import Request, Sampling
from engine.providers.specs import seconds_of, service_of

KEYS = Keys({"OPENAI_API_KEY": "k", "AZURE_OPENAI_API_KEY": "a"}, Path())
REQUEST = Request([], sampling=Sampling(0.5, 0.9, 7))
RESOURCE = {"type": "azure", "endpoint": "https://r.openai.azure.com/"}
TODAY = "api-version=2024-10-21"

ADDRESSES = [
    pytest.param({"type": "openai", "model": "gpt-4o"}, "https://api.openai.com/v1/chat/completions", id="openai"),
    pytest.param(
        {"type": "openai", "model": "gpt-4o", "base_url": "https://x.test/api/v1/"}, "https://x.test/api/v1/chat/completions", id="a base URL"
    ),
    pytest.param({"type": "openai", "model": "m", "base_url": "http://llm:8000"}, "http://llm:8000/v1/chat/completions", id="a host alone"),
    pytest.param({"type": "openai", "model": "o1-pro"}, "https://api.openai.com/v1/responses", id="a model of responses alone"),
    pytest.param({"type": "openai", "model": "gpt-5.2-pro-2026-01-01"}, "https://api.openai.com/v1/responses", id="a snapshot of one"),
    pytest.param(
        {"type": "openai", "model": "o1-pro", "base_url": "http://llm:8000/v1"}, "http://llm:8000/v1/chat/completions", id="the same elsewhere"
    ),
    pytest.param(
        {"type": "openai", "model": "m", "base_url": "http://llm/v1", "additional_config": {"api_mode": "responses"}},
        "http://llm/v1/responses",
        id="responses where they are wanted",
    ),
    pytest.param(
        {"type": "openai", "model": "o1-pro", "additional_config": {"api_mode": "chat"}},
        "https://api.openai.com/v1/chat/completions",
        id="chat as well",
    ),
    pytest.param({"type": "ollama", "model": "m"}, "http://localhost:11434/v1/chat/completions", id="ollama"),
    pytest.param({"type": "ollama", "model": "m", "base_url": "http://o:11435"}, "http://o:11435/v1/chat/completions", id="ollama elsewhere"),
    pytest.param({"type": "vllm", "model": "m"}, "http://localhost:8000/v1/chat/completions", id="vllm"),
    pytest.param({"type": "vllm", "model": "m", "base_url": "http://v:1/v1"}, "http://v:1/v1/chat/completions", id="vllm elsewhere"),
    pytest.param(
        {"type": "openai", "model": "gpt-4o", "platform": RESOURCE},
        f"https://r.openai.azure.com/openai/deployments/gpt-4o/chat/completions?{TODAY}",
        id="azure",
    ),
    pytest.param(
        {"type": "openai", "model": "gpt-4o", "platform": {**RESOURCE, "additional_config": {"deployment": "my dep", "api_version": "2025-01-01"}}},
        "https://r.openai.azure.com/openai/deployments/my%20dep/chat/completions?api-version=2025-01-01",
        id="a deployment of another name",
    ),
    pytest.param(
        {"type": "openai", "model": "gpt-4o", "platform": {**RESOURCE, "additional_config": {"api_version": "v1"}}},
        "https://r.openai.azure.com/openai/v1/chat/completions",
        id="azure's v1",
    ),
    pytest.param(
        {"type": "openai", "model": "gpt-4o", "platform": {"type": "azure"}, "base_url": "https://r.openai.azure.com/openai/v1"},
        "https://r.openai.azure.com/openai/v1/chat/completions",
        id="azure's v1 by its address",
    ),
    pytest.param(
        {"type": "openai", "model": "gpt-5", "platform": RESOURCE, "additional_config": {"api_mode": "responses"}},
        "https://r.openai.azure.com/openai/v1/responses",
        id="azure's responses",
    ),
]


@pytest.mark.parametrize(("spec", "url"), ADDRESSES)
def test_where_a_model_is_asked(spec: Mapping[str, Any], url: str) -> None:
    """Type, platform, address, mode and model decide where a request goes."""
    service = service_of({"id": "p", **spec}, KEYS)
    assert service.base_url + service.wire.call(REQUEST, streaming=False).path == url


SENT = [
    pytest.param({"type": "openai", "model": "gpt-4o"}, {"temperature": 0.5, "top_p": 0.9, "max_completion_tokens": 7}, id="openai"),
    pytest.param({"type": "openai", "model": "o4-mini"}, {"max_completion_tokens": 7}, id="a reasoning model"),
    pytest.param({"type": "openai", "model": "gpt-5-mini"}, {"max_completion_tokens": 7}, id="another"),
    pytest.param(
        {"type": "openai", "model": "gpt-5-chat-latest"}, {"temperature": 0.5, "top_p": 0.9, "max_completion_tokens": 7}, id="one that does not"
    ),
    pytest.param(
        {"type": "openai", "model": "o4-mini", "base_url": "http://l/v1"}, {"temperature": 0.5, "top_p": 0.9, "max_tokens": 7}, id="elsewhere"
    ),
    pytest.param(
        {"type": "openai", "model": "m", "base_url": "http://l/v1", "unsupported_params": ["max_tokens", "top_p"]},
        {"temperature": 0.5, "max_completion_tokens": 7},
        id="no max_tokens",
    ),
    pytest.param(
        {"type": "ollama", "model": "m", "additional_config": {"keep_alive": "5m", "api_mode": "responses"}},
        {"temperature": 0.5, "top_p": 0.9, "max_tokens": 7, "keep_alive": "5m"},
        id="ollama",
    ),
    pytest.param(
        {"type": "vllm", "model": "m", "additional_config": {"guided_json": {"type": "object"}, "extra_body": {"min_tokens": 3}}},
        {"temperature": 0.5, "top_p": 0.9, "max_tokens": 7, "guided_json": {"type": "object"}, "min_tokens": 3},
        id="vllm",
    ),
    pytest.param({"type": "openai", "model": "o4-mini", "platform": RESOURCE}, {"max_completion_tokens": 7}, id="a reasoning model on azure"),
    pytest.param(
        {"type": "openai", "model": "gpt-4o", "platform": RESOURCE}, {"temperature": 0.5, "top_p": 0.9, "max_tokens": 7}, id="another on azure"
    ),
]


@pytest.mark.parametrize(("spec", "keys"), SENT)
def test_what_a_model_is_sent(spec: Mapping[str, Any], keys: Mapping[str, Any]) -> None:
    """Each model gets the parameters that it takes, by the names that its server takes."""
    body = service_of({"id": "p", **spec}, KEYS).wire.call(REQUEST, streaming=False).body
    assert {key: value for key, value in body.items() if key not in ("model", "messages")} == keys


async def test_azure_takes_its_key_in_a_header_of_its_own() -> None:
    """A key of Azure's is no bearer token; OpenAI's own variables are not its."""
    signer = service_of({"id": "p", "type": "openai", "model": "m", "platform": RESOURCE}, KEYS).signer
    assert await signer.headers("POST", "", b"") == {"api-key": "a"}


@pytest.mark.parametrize(
    "spec", [{"type": "openai", "platform": {"type": "azure"}}, {"type": "imagen"}, {"type": "openai", "platform": {"type": "bedrock"}}]
)
def test_what_is_not_built_is_refused(spec: Mapping[str, Any]) -> None:
    """A type that nobody speaks, and a platform without an endpoint, are refused by name."""
    with pytest.raises(FeatureNotSupported, match="cannot ask provider 'p'"):
        service_of({"id": "p", **spec}, KEYS)


@pytest.mark.parametrize(
    ("duration", "seconds"), [("30s", 30), ("1m30s", 90), ("500ms", 0.5), ("2h", 7200), (5, 5), (None, 60), ("0s", 60), ("", 60)]
)
def test_durations(duration: Any, seconds: float) -> None:
    """A duration of a spec is read as Go writes it; none, and none at all, are the default."""
    assert seconds_of(duration, 60.0) == seconds
