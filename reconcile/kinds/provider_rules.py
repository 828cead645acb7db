"""Rules of Provider: which vendor does what, on which platform, with which authentication."""

from collections.abc import Mapping
from typing import Any, Final

from reconcile.kinds.rule import Rule, count_of

ROLE_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "llm": ("claude", "openai", "gemini", "ollama", "mock", "vllm"),
    "embedding": ("openai", "voyageai", "gemini", "ollama"),
    "tts": ("openai", "cartesia", "elevenlabs"),
    "stt": ("openai",),
    "image": ("imagen",),
    "inference": ("huggingface",),
}
PLATFORM_AUTH: Final[Mapping[str, tuple[str, ...]]] = {
    "bedrock": ("workloadIdentity", "accessKey"),
    "vertex": ("workloadIdentity", "serviceAccount"),
    "azure": ("workloadIdentity", "servicePrincipal"),
}
NO_SUCH_OFFER: Final = (("openai", "vertex"), ("gemini", "bedrock"), ("gemini", "azure"))

_Value = Mapping[str, Any]


def _quoted(words: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


def _role_cel() -> str:
    return " || ".join(f"(self.role == '{role}' && self.type in {_quoted(types)})" for role, types in ROLE_TYPES.items())


def _auth_cel() -> str:
    allowed = " || ".join(f"(self.platform.type == '{platform}' && self.auth.type in {_quoted(types)})" for platform, types in PLATFORM_AUTH.items())
    return f"!has(self.platform) || !has(self.auth) || {allowed}"


def _offer_cel() -> str:
    missing = " || ".join(f"(self.type == '{vendor}' && self.platform.type == '{platform}')" for vendor, platform in NO_SUCH_OFFER)
    return f"!has(self.platform) || !({missing})"


def _auth_fits(value: _Value, _old: object) -> bool:
    if count_of(value, "platform", "auth") < 2:  # noqa: PLR2004 - both of the two
        return True
    return value["auth"].get("type") in PLATFORM_AUTH.get(value["platform"].get("type"), ())


def _is_offered(value: _Value, _old: object) -> bool:
    return "platform" not in value or (value.get("type"), value["platform"].get("type")) not in NO_SUCH_OFFER


PROVIDER_RULES: Final = (
    Rule(
        scope="spec",
        cel="self.type == 'mock' || (has(self.model) && self.model != '')",
        message="a provider needs a model, unless its type is mock: set model",
        holds=lambda value, _old: value.get("type") == "mock" or bool(value.get("model")),
    ),
    Rule(
        scope="spec",
        cel=_role_cel(),
        message="the type does not have this role (llm: claude, openai, gemini, ollama, mock, vllm; embedding: openai, voyageai, gemini, ollama; "
        "tts: openai, cartesia, elevenlabs; stt: openai; image: imagen; inference: huggingface): change type or role",
        holds=lambda value, _old: value.get("type") in ROLE_TYPES.get(value.get("role", "llm"), ()),
    ),
    Rule(
        scope="spec",
        cel="has(self.platform) == has(self.auth)",
        message="platform and auth go together: set both or neither",
        holds=lambda value, _old: ("platform" in value) == ("auth" in value),
    ),
    Rule(
        scope="spec",
        cel=_auth_cel(),
        message="the platform does not take this auth (bedrock: workloadIdentity, accessKey; vertex: workloadIdentity, serviceAccount; "
        "azure: workloadIdentity, servicePrincipal): change auth.type",
        holds=_auth_fits,
    ),
    Rule(
        scope="spec",
        cel=_offer_cel(),
        message="the platform does not offer this vendor's models (openai on vertex, gemini on bedrock or azure): change platform.type",
        holds=_is_offered,
    ),
    Rule(
        scope="spec",
        cel="!has(self.mock) || self.type == 'mock'",
        message="mock answers are for type mock only: remove mock or change type",
        holds=lambda value, _old: "mock" not in value or value.get("type") == "mock",
    ),
    Rule(
        scope="spec.platform",
        cel="self.type != 'vertex' || (has(self.project) && self.project != '')",
        message="vertex needs a project: set platform.project",
        holds=lambda value, _old: value.get("type") != "vertex" or bool(value.get("project")),
    ),
    Rule(
        scope="spec.platform",
        cel="self.type != 'azure' || (has(self.endpoint) && self.endpoint != '')",
        message="azure needs an endpoint: set platform.endpoint",
        holds=lambda value, _old: value.get("type") != "azure" or bool(value.get("endpoint")),
    ),
    Rule(
        scope="spec.auth",
        cel="self.type == 'workloadIdentity' || has(self.credentialsSecretRef)",
        message="every auth but workloadIdentity needs credentials: set auth.credentialsSecretRef",
        holds=lambda value, _old: value.get("type") == "workloadIdentity" or "credentialsSecretRef" in value,
    ),
    Rule(
        scope="spec.credential",
        cel="(has(self.secretRef) ? 1 : 0) + (has(self.envVar) ? 1 : 0) + (has(self.filePath) ? 1 : 0) <= 1",
        message="a credential comes from one place: keep one of secretRef, envVar and filePath",
        holds=lambda value, _old: count_of(value, "secretRef", "envVar", "filePath") <= 1,
    ),
)
