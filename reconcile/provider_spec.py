"""A Provider's spec in the words of a bundle's Provider file: every field is said again, or named as one that has no effect.

Source: resources.md, "Provider"; promptkit-format.md 4.1. Pure: of a Secret nothing is in it but the variable that will hold its value. The object
may be another product's, so it is read as it stands.
"""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from engine.providers.credentials import USUAL
from engine.tools.environment import is_ours
from engine.worker_settings import CREDENTIAL
from reconcile.kinds.provider_checks import provider_problems

LAST_KEY: Final = "api-key"
"""The key looked for in a Secret after the vendor's usual ones, when a provider names none."""

_DECIMALS: Final = frozenset({"temperature", "top_p", "input_cost_per_1k", "output_cost_per_1k", "cached_cost_per_1k"})
_OF_A_MOCK: Final[Mapping[str, str]] = {
    "model": "model",
    "role": "role",
    "capabilities": "capabilities",
    "defaults.temperature": "defaults.temperature",
    "defaults.topP": "defaults.top_p",
    "defaults.maxTokens": "defaults.max_tokens",
}
_WORDS: Final[Mapping[str, str]] = {
    **_OF_A_MOCK,
    "baseURL": "base_url",
    "headers": "headers",
    "defaults.contextWindow": "context_window",
    "defaults.truncationStrategy": "truncation_strategy",
    "defaults.requestTimeout": "request_timeout",
    "defaults.streamIdleTimeout": "stream_idle_timeout",
    "platform.type": "platform.type",
    "platform.region": "platform.region",
    "platform.project": "platform.project",
    "platform.endpoint": "platform.endpoint",
    "auth.type": "auth.type",
    "auth.roleArn": "auth.role_arn",
    "auth.serviceAccountEmail": "auth.service_account_email",
    "pricing.inputCostPer1K": "pricing.input_cost_per_1k",
    "pricing.outputCostPer1K": "pricing.output_cost_per_1k",
    "pricing.cachedCostPer1K": "pricing.cached_cost_per_1k",
    "rateLimit.requestsPerMinute": "rate_limit.requests_per_minute",
    "rateLimit.concurrency": "rate_limit.concurrency",
    "credential.envVar": "credential.credential_env",
    "credential.filePath": "credential.credential_file",
}
"""Each field of a Provider, and the engine's word for it."""

_STRATEGIES: Final[Mapping[str, str]] = {"sliding": "oldest", "oldest": "oldest", "summarize": "summarize", "fail": "fail"}
"""What the engine calls each strategy; of any other nothing comes."""

_AUTH_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "accessKey": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    "serviceAccount": ("credentials.json",),
    "servicePrincipal": ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"),
}
"""What the Secret of each kind of authentication holds; the only key of a service account may have another name."""


@dataclass(frozen=True, slots=True)
class SecretWish:
    """A Secret whose key a variable is to hold: the first of `keys` that it has. `provider` is whose key it is, for messages."""

    provider: str
    secret: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """A Provider as the engine reads it. `wishes` are by variable; `ignored` are paths of fields without an effect, such as `spec.pricing`."""

    spec: Mapping[str, Any]
    wishes: Mapping[str, SecretWish]
    ignored: tuple[str, ...]


class ProviderUnreadable(ValueError):
    """A Provider cannot be used as it stands; the text says why, from its field on."""


def provider_spec(name: str, given: Mapping[str, Any], number: int) -> ProviderSpec:
    """Translate the spec of the Provider `name`, the entry of this number among the run's.

    Raises:
        ProviderUnreadable: it has no type, or a value that cannot be read.
    """
    left = deepcopy(dict(given))
    kind = left.pop("type", None)
    if not isinstance(kind, str) or not kind:
        raise ProviderUnreadable("spec.type is not set")
    if problem := next(iter(provider_problems(given)), None):
        raise ProviderUnreadable(str(problem))
    spec: dict[str, Any] = {"type": kind}
    for source, target in (_OF_A_MOCK if kind == "mock" else _WORDS).items():
        value = _take(left, source.split("."))
        if value not in (None, "", [], {}):
            _put(spec, target.split("."), _converted(source, target, value))
    if (strategy := spec.pop("truncation_strategy", "")) in _STRATEGIES:
        spec["truncation_strategy"] = _STRATEGIES[strategy]
    elif strategy:
        _put(left, ["defaults", "truncationStrategy"], strategy)
    wishes = {} if kind == "mock" else dict(_wishes(name, kind, spec, left, f"{CREDENTIAL}{number}"))
    if kind == "mock":
        left.pop("mock", None)
    else:
        spec["from_job"] = True
    return ProviderSpec(spec, wishes, tuple(_paths(left, "spec")))


def _wishes(name: str, kind: str, spec: dict[str, Any], left: dict[str, Any], variable: str) -> Iterator[tuple[str, SecretWish]]:
    """Yield what the Secrets of a provider are to give, and say in `spec` where it will be."""
    variables = (spec.get("credential") or {}).get("credential_env", "")
    if is_ours(variables):
        raise ProviderUnreadable(f"spec.credential.envVar: {variables} is Arena's own")
    if own := _take(left, ["credential", "secretRef"]):
        spec["credential"] = {"credential_env": variable}
        yield variable, SecretWish(name, str(own.get("name")), (own["key"],) if own.get("key") else (*USUAL.get(kind, ()), LAST_KEY))
    method = (spec.get("auth") or {}).get("type", "")
    secret = _take(left, ["auth", "credentialsSecretRef"]) if method in _AUTH_KEYS else None
    if secret:
        keys = _AUTH_KEYS[method]
        if secret.get("key") and len(keys) > 1:
            _put(left, ["auth", "credentialsSecretRef", "key"], secret["key"])
        spec["auth"]["variables"] = {key: f"{variable}_{re.sub('[^A-Z0-9]', '_', key.upper())}" for key in keys}
        for key, place in spec["auth"]["variables"].items():
            yield place, SecretWish(name, str(secret.get("name")), (secret["key"],) if secret.get("key") and len(keys) == 1 else (key,))


def _take(left: dict[str, Any], path: list[str]) -> Any:
    """Return what stands at a path, and take it away; None when nothing does."""
    inner = left
    for step in path[:-1]:
        inner = inner.get(step)  # type: ignore[assignment]
        if not isinstance(inner, dict):
            return None
    return inner.pop(path[-1], None)


def _put(spec: dict[str, Any], path: list[str], value: Any) -> None:
    for step in path[:-1]:
        spec = spec.setdefault(step, {})
    spec[path[-1]] = value


def _converted(source: str, target: str, value: Any) -> Any:
    """Return a value as the format has it: numbers where Kubernetes has decimals as text."""
    if target.rpartition(".")[2] not in _DECIMALS:
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ProviderUnreadable(f"spec.{source}: {value!r} is no number") from None


def _paths(left: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the paths of what is left, the empty aside."""
    for key, value in left.items():
        if isinstance(value, Mapping):
            yield from _paths(value, f"{path}.{key}")
        elif value not in (None, "", []):
            yield f"{path}.{key}"
