"""What becomes of each field of a Provider: a word of the engine's spec, a Secret that a variable is to hold, or a sentence that it has no effect."""

from typing import Any

import pytest

from reconcile.kinds.provider import ProviderSpec as ProviderKind
from reconcile.provider_spec import ProviderUnreadable, SecretWish, provider_spec

OPENAI: dict[str, Any] = {"type": "openai", "model": "gpt-5"}
FIELDS = [
    pytest.param({"role": "embedding"}, {"role": "embedding"}, id="role"),
    pytest.param({"baseURL": "http://vllm.models:8000/v1"}, {"base_url": "http://vllm.models:8000/v1"}, id="baseURL"),
    pytest.param({"headers": {"X-Team": "support"}}, {"headers": {"X-Team": "support"}}, id="headers"),
    pytest.param(
        {"platform": {"type": "bedrock", "region": "eu-west-1"}, "auth": {"type": "workloadIdentity", "roleArn": "arn:aws:iam::1:role/r"}},
        {"platform": {"type": "bedrock", "region": "eu-west-1"}, "auth": {"type": "workloadIdentity", "role_arn": "arn:aws:iam::1:role/r"}},
        id="platform and auth of bedrock",
    ),
    pytest.param(
        {"platform": {"type": "vertex", "project": "p"}, "auth": {"type": "workloadIdentity", "serviceAccountEmail": "a@b"}},
        {"platform": {"type": "vertex", "project": "p"}, "auth": {"type": "workloadIdentity", "service_account_email": "a@b"}},
        id="platform and auth of vertex",
    ),
    pytest.param({"platform": {"type": "azure", "endpoint": "https://e"}}, {"platform": {"type": "azure", "endpoint": "https://e"}}, id="endpoint"),
    pytest.param({"credential": {"envVar": "TEAM_KEY"}}, {"credential": {"credential_env": "TEAM_KEY"}}, id="credential.envVar"),
    pytest.param({"credential": {"filePath": "/mnt/key"}}, {"credential": {"credential_file": "/mnt/key"}}, id="credential.filePath"),
    pytest.param({"credential": {"secretRef": {"name": "s"}}}, {"credential": {"credential_env": "ARENA_CREDENTIAL_3"}}, id="credential.secretRef"),
    pytest.param(
        {"defaults": {"temperature": "0.25", "topP": "0.9", "maxTokens": 256}},
        {"defaults": {"temperature": 0.25, "top_p": 0.9, "max_tokens": 256}},
        id="defaults of sampling",
    ),
    pytest.param(
        {"defaults": {"contextWindow": 8000, "truncationStrategy": "sliding", "requestTimeout": "90s", "streamIdleTimeout": "20s"}},
        {"context_window": 8000, "truncation_strategy": "oldest", "request_timeout": "90s", "stream_idle_timeout": "20s"},
        id="defaults of the context and of time",
    ),
    pytest.param(
        {"pricing": {"inputCostPer1K": "0.0005", "outputCostPer1K": "0.0015", "cachedCostPer1K": "0"}},
        {"pricing": {"input_cost_per_1k": 0.0005, "output_cost_per_1k": 0.0015, "cached_cost_per_1k": 0.0}},
        id="pricing",
    ),
    pytest.param({"capabilities": ["vision", "tools"]}, {"capabilities": ["vision", "tools"]}, id="capabilities"),
    pytest.param(
        {"rateLimit": {"requestsPerMinute": 60, "concurrency": 4}}, {"rate_limit": {"requests_per_minute": 60, "concurrency": 4}}, id="rateLimit"
    ),
]


@pytest.mark.parametrize(("given", "expected"), FIELDS)
def test_a_field_is_said_in_the_engines_words(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """Every field of a Provider has its word in the spec that a plan carries, numbers as numbers; nothing is left out silently."""
    found = provider_spec("gpt", {**OPENAI, **given}, 3)
    assert found.spec == {**OPENAI, **expected, "from_job": True}
    assert found.ignored == ()


def test_every_field_of_the_kind_has_a_case() -> None:
    """A field that the kind gets has a case here, so that none is forgotten: `mock` is the mock's alone."""
    cased = {field for case in FIELDS for field in case.values[0]}  # type: ignore[union-attr]
    declared = {info.alias or name for name, info in ProviderKind.model_fields.items()}
    assert declared - cased == {"type", "model", "mock"}


@pytest.mark.parametrize(
    ("given", "ignored"),
    [
        pytest.param({"tags": {"team": "a"}}, ("spec.tags.team",), id="a field that is none of ours"),
        pytest.param({"defaults": {"topK": 4}}, ("spec.defaults.topK",), id="one below a field of ours"),
        pytest.param(
            {"mock": {"configMap": {"name": "a", "key": "b"}}}, ("spec.mock.configMap.name", "spec.mock.configMap.key"), id="answers of a mock"
        ),
        pytest.param({"defaults": {"truncationStrategy": "custom"}}, ("spec.defaults.truncationStrategy",), id="a strategy that is none of ours"),
        pytest.param({"headers": {}, "platform": None, "capabilities": []}, (), id="what says nothing"),
        pytest.param(
            {"platform": {"type": "bedrock"}, "auth": {"type": "accessKey", "credentialsSecretRef": {"name": "s", "key": "k"}}},
            ("spec.auth.credentialsSecretRef.key",),
            id="one key where several are needed",
        ),
        pytest.param(
            {"platform": {"type": "bedrock"}, "auth": {"type": "workloadIdentity", "credentialsSecretRef": {"name": "s"}}},
            ("spec.auth.credentialsSecretRef.name",),
            id="a Secret where none is needed",
        ),
    ],
)
def test_what_has_no_effect_is_named(given: dict[str, Any], ignored: tuple[str, ...]) -> None:
    """The object may be another product's: what we do not know of it is named, never dropped without a word."""
    assert provider_spec("gpt", {**OPENAI, **given}, 0).ignored == ignored


def test_a_mock_names_what_it_ignores() -> None:
    """A mock takes what shapes its answers; the rest is named, and no Secret of it is asked for."""
    given = {"type": "mock", "model": "m", "headers": {"a": "b"}, "credential": {"secretRef": {"name": "s"}}, "defaults": {"maxTokens": 5}}
    found = provider_spec("m", given, 0)
    assert (found.spec, found.wishes) == ({"type": "mock", "model": "m", "defaults": {"max_tokens": 5}}, {})
    assert found.ignored == ("spec.headers.a", "spec.credential.secretRef.name")


@pytest.mark.parametrize(
    ("kind", "reference", "keys"),
    [
        pytest.param("openai", {"name": "s"}, ("OPENAI_API_KEY", "OPENAI_TOKEN", "api-key"), id="openai"),
        pytest.param("claude", {"name": "s"}, ("ANTHROPIC_API_KEY", "CLAUDE_API_KEY", "api-key"), id="claude"),
        pytest.param("gemini", {"name": "s"}, ("GEMINI_API_KEY", "GOOGLE_API_KEY", "api-key"), id="gemini"),
        pytest.param("voyageai", {"name": "s"}, ("VOYAGE_API_KEY", "api-key"), id="voyageai"),
        pytest.param("vllm", {"name": "s"}, ("api-key",), id="a vendor without a usual key"),
        pytest.param("openai", {"name": "s", "key": "team"}, ("team",), id="a key that is named"),
    ],
)
def test_the_keys_that_are_looked_for(kind: str, reference: dict[str, str], keys: tuple[str, ...]) -> None:
    """Without a key the vendor's usual ones are looked for, in order, and `api-key` last."""
    given = {"type": kind, "model": "m", "credential": {"secretRef": reference}}
    assert provider_spec("p", given, 2).wishes == {"ARENA_CREDENTIAL_2": SecretWish("p", "s", keys)}


@pytest.mark.parametrize(
    ("platform", "auth", "variables"),
    [
        pytest.param(
            "bedrock",
            {"type": "accessKey"},
            {"AWS_ACCESS_KEY_ID": ("AWS_ACCESS_KEY_ID",), "AWS_SECRET_ACCESS_KEY": ("AWS_SECRET_ACCESS_KEY",)},
            id="accessKey",
        ),
        pytest.param("vertex", {"type": "serviceAccount"}, {"credentials.json": ("credentials.json",)}, id="serviceAccount"),
        pytest.param("vertex", {"type": "serviceAccount", "key": "team.json"}, {"credentials.json": ("team.json",)}, id="serviceAccount by key"),
        pytest.param(
            "azure",
            {"type": "servicePrincipal"},
            {key: (key,) for key in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")},
            id="servicePrincipal",
        ),
    ],
)
def test_the_keys_of_a_platform(platform: str, auth: dict[str, str], variables: dict[str, tuple[str, ...]]) -> None:
    """A cloud's credentials come from the Secret's keys one by one, each as a variable of its own."""
    reference = {"name": "cloud", **({"key": auth["key"]} if "key" in auth else {})}
    given = {**OPENAI, "platform": {"type": platform}, "auth": {"type": auth["type"], "credentialsSecretRef": reference}}
    found = provider_spec("p", given, 1)
    places = found.spec["auth"]["variables"]
    assert {key: found.wishes[place].keys for key, place in places.items()} == variables
    assert all(place.startswith("ARENA_CREDENTIAL_1_") and place.isupper() for place in places.values())
    assert found.ignored == ()


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        pytest.param({"model": "m"}, "spec.type is not set", id="no type"),
        pytest.param({**OPENAI, "pricing": {"inputCostPer1K": "free"}}, "spec.pricing.inputCostPer1K: 'free' is no number", id="a price in words"),
        *(
            pytest.param({**OPENAI, "credential": {"envVar": name}}, f"spec.credential.envVar: {name} is Arena's own", id=name)
            for name in ("REDIS_URL", "ARENA_CREDENTIAL_0", "KUBERNETES_SERVICE_HOST")
        ),
    ],
)
def test_what_cannot_be_used(given: dict[str, Any], cause: str) -> None:
    """What cannot be read, or would take a variable that is no provider's key, is refused by its field."""
    with pytest.raises(ProviderUnreadable, match=cause):
        provider_spec("p", given, 0)
