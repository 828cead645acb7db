"""The providers of a plan, each built once, and how each samples.

Owns the order in which request parameters win, and that a key is there before anybody is asked. A plan's specs have a mock override applied already.
Must not know conversations.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.bundle.mock_reader import load_mock_responses, parse_mock_responses
from engine.bundle.mock_responses import MockResponses
from engine.bundle.model import Bundle, RequestDefaults
from engine.bundle.provider_reader import RECORDING_KEYS
from engine.bundle.supported import serving_of
from engine.errors import BundleInvalid, ProviderNotFound
from engine.plan import Plan
from engine.providers.addresses import check_addresses
from engine.providers.connections import NO_CONNECTIONS, Connections
from engine.providers.credentials import Keys, check
from engine.providers.mock import GENERIC_REPLY, MockProvider
from engine.providers.port import Provider, Sampling
from foundation.clock import Clock

if TYPE_CHECKING:
    from engine.agents.provider import AgentProvider
    from engine.judging.inference import Inference
    from engine.media.store import MediaStore
    from engine.providers.remotes import Remotes

Entry = tuple[Provider, Sampling]

NO_DEFAULTS = RequestDefaults()
JUDGING = RequestDefaults(temperature=0.0, max_tokens=1024)
"""How a judge samples where its provider's file says nothing (promptkit-format.md 3.6); the arena's defaults are the subjects'."""


class ProviderSet:
    """The providers that a plan tests, built at once, and those that serve judges and self-play roles, each built when it is first asked for.

    Raises (when built):
        BundleInvalid: a response file cannot be read.
        FeatureNotSupported: a type is not built, or an address may not be reached; the message names each.
        CredentialMissing: a provider's key is not where it should be; the message names each.
    """

    def __init__(self, bundle: Bundle, plan: Plan, clock: Clock, connections: Connections = NO_CONNECTIONS) -> None:
        self._bundle = bundle
        self._plan = plan
        self._clock = clock
        self._connections = connections
        self._remotes: Remotes | None = None
        self._media: MediaStore | None = None
        asked = serving_of(bundle, plan.scenarios)
        specs = {**{name: spec for name, spec in plan.serving.items() if name in asked}, **plan.providers}
        check_addresses(specs, plan.permissions.addresses)
        check(specs, connections.environment)
        self._files: dict[str, MockResponses] = {}
        self._generic = GENERIC_REPLY if plan.mocked is not None else ""
        self._agents: list[tuple[str, AgentProvider]] = []
        self._subjects = {name: self._entry(name, spec) for name, spec in plan.providers.items()}
        self._serving: dict[str, Provider] = {}
        self._judges: dict[tuple[str, str], Entry] = {}
        self._inferences: dict[tuple[str, str], Inference] = {}

    def get(self, name: str) -> Entry:
        """Return a provider that is tested, and how it samples.

        Raises:
            ProviderNotFound: the plan tests none of this name.
        """
        found = self._subjects.get(name)
        if found is None:
            raise ProviderNotFound(f"cannot ask provider '{name}': the plan does not have it", hint=f"it has: {', '.join(self._subjects) or 'none'}")
        return found

    def serving(self, name: str, wanted: RequestDefaults) -> Entry:
        """Return a provider that serves a self-play role, and how it samples: as `wanted`, else as its own file says.

        Raises:
            ProviderNotFound: none of the plan serves under this name.
            BundleInvalid: its response file cannot be read.
            FeatureNotSupported: its type is not built.
        """
        spec = self._serving_spec(name)
        found = self._serving.get(name)
        if found is None:
            found = self._serving[name] = self._build(name, spec)
        return found, sampling(wanted, spec)

    def judge(self, name: str, model: str = "") -> Entry:
        """Return a provider that judges, and how it samples: as its own file says, else at temperature 0; `model` replaces its model, and its price.

        Raises:
            As `serving`.
        """
        found = self._judges.get((name, model))
        if found is None:
            spec = _with_model(self._serving_spec(name), model)
            found = self._judges[name, model] = (self._build(name, spec), sampling(NO_DEFAULTS, spec, otherwise=JUDGING))
        return found

    def inference(self, name: str, model: str = "") -> "Inference":
        """Return what labels or embeds behind a provider of role inference or embedding; `model` replaces that of a vendor's, and its price.

        Raises:
            As `serving`.
        """
        from engine.judging.inference import MockInference  # noqa: PLC0415 - only checks that ask a classifier need it

        spec = self._serving_spec(name)
        if spec.get("type") == "mock":
            return MockInference((spec.get("additional_config") or {}).get("labels"))
        from engine.judging.remote_inference import RemoteInference  # noqa: PLC0415 - same

        found = self._inferences.get((name, model))
        if found is None:
            found = self._inferences[name, model] = RemoteInference(self._remote(name, _with_model(spec, model)))
        return found

    @property
    def troubles(self) -> Mapping[str, str]:
        """Return why requests wait to be made again, by provider: those to models, and conversations with agents that have not begun."""
        agents = {name: agent.trouble for name, agent in self._agents if agent.trouble}
        return agents if self._remotes is None else {**agents, **self._remotes.troubles}

    async def close(self) -> None:
        """Close every provider. Idempotent."""
        judges = (provider for provider, _ in self._judges.values())
        for provider in (*(provider for provider, _ in self._subjects.values()), *self._serving.values(), *judges):
            await provider.close()
        if self._remotes is not None:
            await self._remotes.close()
        if self._media is not None:
            await self._media.close()

    def _serving_spec(self, name: str) -> Mapping[str, Any]:
        spec = self._plan.serving.get(name)
        if spec is None:
            served = ", ".join(self._plan.serving) or "none"
            raise ProviderNotFound(f"cannot ask provider '{name}': none of the plan serves under this name", hint=f"it has: {served}")
        return spec

    def _entry(self, name: str, spec: Mapping[str, Any]) -> Entry:
        return self._build(name, spec), sampling(self._bundle.arena.defaults, spec)

    def _build(self, name: str, spec: Mapping[str, Any]) -> Provider:
        if spec.get("type") == "replay":
            return self._replay(name, spec)
        if spec.get("type") == "agent":
            from engine.agents.provider import AgentProvider  # noqa: PLC0415 - only runs that test agents need it
            from engine.agents.session import Patience  # noqa: PLC0415 - same
            from engine.providers.retry import patience_of  # noqa: PLC0415 - same

            token = Keys(self._connections.environment).of({**spec, "id": name})
            agent = AgentProvider(name, spec, self._clock, token, Patience(retry_s=patience_of(self._plan.item_timeout_s)))
            self._agents.append((name, agent))
            return agent
        if spec.get("type") != "mock":
            return self._remote(name, spec)
        additional = spec.get("additional_config") or {}
        file, answers = additional.get("mock_config") or "", additional.get("mock_answers") or ""
        return MockProvider(
            name,
            spec.get("model") or "",
            parse_mock_responses(answers, f"answers of provider '{name}'") if answers else self._responses(file),
            self._clock,
            latency_ms=float(additional.get("latency_ms") or 0.0),
            generic_reply="" if file or answers else self._generic,
        )

    def _replay(self, name: str, spec: Mapping[str, Any]) -> Provider:
        from engine.bundle.recording_reader import load_recording  # noqa: PLC0415 - only bundles that replay need it
        from engine.providers.replay import ReplayProvider, options_of  # noqa: PLC0415 - same

        additional = spec.get("additional_config") or {}
        named = [(additional[key], kind) for key, kind in RECORDING_KEYS.items() if additional.get(key)]
        if not named:
            raise BundleInvalid(f"cannot ask provider '{name}': it names no recording", hint="set additional_config.recording")
        return ReplayProvider(load_recording(self._bundle.root, *named[0]), options_of(additional), self._clock)

    def _remote(self, name: str, spec: Mapping[str, Any]) -> Provider:
        """Return a provider of a vendor's, which gets the bytes of media with its requests."""
        from engine.media.provider import MediaProvider  # noqa: PLC0415 - only bundles with real models need it
        from engine.media.store import MediaStore  # noqa: PLC0415 - same
        from engine.providers.prices import Prices  # noqa: PLC0415 - same
        from engine.providers.remotes import Remotes  # noqa: PLC0415 - same
        from engine.providers.retry import patience_of  # noqa: PLC0415 - same

        plan, policy = self._plan, self._plan.permissions.addresses
        if self._remotes is None:
            keys = Keys(self._connections.environment, self._bundle.root, plan.secrets)
            patience_s, workers = patience_of(plan.item_timeout_s), self._connections.workers
            self._remotes = Remotes(keys, policy, Prices(plan.prices), self._clock, patience_s=patience_s, workers=workers)
        if self._media is None:
            self._media = MediaStore(self._bundle.root, self._connections.media_cache, policy, self._clock)
        return MediaProvider(self._remotes.build(name, spec), self._media)

    def _responses(self, file: str) -> MockResponses:
        if not file:
            return MockResponses()
        if file not in self._files:
            self._files[file] = load_mock_responses(self._bundle.root, file)
        return self._files[file]


def _with_model(spec: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """Return a spec with another model, which has another price; "" keeps its own."""
    if not model or model == spec.get("model"):
        return spec
    return {key: value for key, value in spec.items() if key != "pricing"} | {"model": model}


def sampling(arena: RequestDefaults, spec: Mapping[str, Any], *, otherwise: RequestDefaults = NO_DEFAULTS) -> Sampling:
    """Return how to sample: the arena's defaults, else the provider's, and `otherwise` last, less what the provider does not support.

    The limit of a reply always stays: a wire that may not send it by this name sends it by another.
    """
    own = spec.get("defaults") or {}
    unsupported = spec.get("unsupported_params") or ()

    def pick(key: str) -> Any:
        wishes = (getattr(arena, key), own.get(key), getattr(otherwise, key))
        return next((wish for wish in wishes if wish is not None), None)

    sampled = {key: None if key in unsupported else pick(key) for key in ("temperature", "top_p", "seed")}
    return Sampling(**sampled, max_tokens=pick("max_tokens"))
