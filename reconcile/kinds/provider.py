"""Provider: how to reach a model, and what it costs. A neighbour: another product may own the kind."""

from typing import ClassVar, Literal

from pydantic import Field

from reconcile.kinds.conditions import Conditions
from reconcile.kinds.wire import (
    DecimalText,
    Duration,
    LongText,
    ObjectName,
    OpenModel,
    PathText,
    Positive,
    Resource,
    SecretKey,
    ShortText,
    StatusModel,
    WireModel,
)

ProviderType = Literal["claude", "openai", "gemini", "ollama", "mock", "vllm", "voyageai", "cartesia", "elevenlabs", "imagen", "huggingface"]
Role = Literal["llm", "embedding", "tts", "stt", "image", "inference"]


class CredentialSecret(WireModel):
    """A Secret, and the key if it is not the vendor's usual one."""

    name: ObjectName = Field(description="Name of the Secret.")
    key: SecretKey | None = Field(None, description="Key within the Secret; the vendor's usual one when not set.")


class Credential(WireModel):
    """Where the API key comes from: at most one of the three."""

    secret_ref: CredentialSecret | None = Field(None, description="A Secret of the provider's namespace.")
    env_var: ShortText | None = Field(None, description="An environment variable of the worker.")
    file_path: PathText | None = Field(None, description="A file of the worker.")


class Platform(WireModel):
    """The cloud that serves the vendor's models."""

    type: Literal["bedrock", "vertex", "azure"] = Field(description="Kind of platform.")
    region: ShortText | None = Field(None, description="Region of the platform.")
    project: ShortText | None = Field(None, description="Project; vertex needs it.")
    endpoint: PathText | None = Field(None, description="Endpoint; azure needs it.")


class Auth(WireModel):
    """How the platform knows us."""

    type: Literal["workloadIdentity", "accessKey", "serviceAccount", "servicePrincipal"] = Field(description="Kind of authentication.")
    role_arn: PathText | None = Field(None, description="Role to assume on bedrock.")
    service_account_email: ShortText | None = Field(None, description="Service account to act as on vertex.")
    credentials_secret_ref: CredentialSecret | None = Field(None, description="Secret with the credentials; all but workloadIdentity need it.")


class Defaults(WireModel):
    """What a call uses unless the bundle says otherwise."""

    temperature: DecimalText | None = Field(None, description="Sampling temperature, a decimal.")
    top_p: DecimalText | None = Field(None, description="Nucleus sampling, a decimal.")
    max_tokens: Positive | None = Field(None, description="Most tokens of an answer.")
    context_window: Positive | None = Field(None, description="Tokens that the model can read.")
    truncation_strategy: ShortText | None = Field(None, description="What is left out when the context is too long.")
    request_timeout: Duration | None = Field(None, description="Longest that a request may take.")
    stream_idle_timeout: Duration | None = Field(None, description="Longest silence within a stream.")


class Pricing(WireModel):
    """What tokens cost, decimals in USD."""

    input_cost_per_1k: DecimalText | None = Field(None, alias="inputCostPer1K", description="USD for 1000 input tokens.")
    output_cost_per_1k: DecimalText | None = Field(None, alias="outputCostPer1K", description="USD for 1000 output tokens.")
    cached_cost_per_1k: DecimalText | None = Field(None, alias="cachedCostPer1K", description="USD for 1000 cached input tokens.")


class ConfigMapKey(WireModel):
    """One key of a ConfigMap."""

    name: ObjectName = Field(description="Name of the ConfigMap.")
    key: SecretKey = Field(description="Key within the ConfigMap.")


class MockAnswers(WireModel):
    """Where a mock's answers come from."""

    config_map: ConfigMapKey = Field(description="A key of a ConfigMap of the provider's namespace.")


class RateLimit(WireModel):
    """How much the vendor lets us ask."""

    requests_per_minute: Positive | None = Field(None, description="Most requests a minute, over all workers of a run.")
    concurrency: Positive | None = Field(None, description="Most requests in flight, over all workers of a run.")


class ProviderSpec(OpenModel):
    """How to reach a model."""

    type: ProviderType = Field(description="The vendor's protocol.")
    role: Role = Field("llm", description="What the provider is used for.")
    model: ShortText | None = Field(None, description="The model; every type but mock needs it.")
    base_url: PathText | None = Field(None, alias="baseURL", description="URL to use instead of the vendor's.")
    headers: dict[str, LongText] = Field(default_factory=dict, max_length=64, description="More headers of every request, in clear: no credentials.")
    platform: Platform | None = Field(None, description="The cloud that serves the model; together with auth.")
    auth: Auth | None = Field(None, description="How the platform knows us; together with platform.")
    credential: Credential | None = Field(None, description="Where the API key comes from.")
    defaults: Defaults | None = Field(None, description="What a call uses unless the bundle says otherwise.")
    pricing: Pricing | None = Field(None, description="What tokens cost.")
    capabilities: list[ShortText] = Field(default_factory=list, max_length=64, description="What the model can do.")
    mock: MockAnswers | None = Field(None, description="Answers of a mock.")
    rate_limit: RateLimit | None = Field(None, description="How much the vendor lets us ask.")


class ProviderStatus(StatusModel):
    """Whether the provider can be used."""

    phase: ShortText | None = Field(None, description="Ready, Error or Unavailable.")
    observed_generation: int | None = Field(None, json_schema_extra={"format": "int64"}, description="Generation that this status speaks of.")
    conditions: Conditions = Field(default_factory=list, description="SecretFound, CredentialConfigured, EndpointReachable.")


class Provider(Resource):
    """Provider says how to reach a model, and what it costs."""

    KIND: ClassVar[str] = "Provider"
    spec: ProviderSpec = Field(description="How to reach the model.")
    status: ProviderStatus = Field(default_factory=ProviderStatus, description="Whether it can be used.")
