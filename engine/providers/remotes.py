"""The remote providers of one process: one transport, and for each provider one account that all its roles share.

Owns what of a provider's spec says how it is asked. Must not know plans or conversations.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.bundle.provider_reader import is_base_url
from engine.errors import BundleInvalid
from engine.providers.addresses import policy_of, written_address
from engine.providers.credentials import Keys
from engine.providers.limits import Limiter, limits_of
from engine.providers.remote import Account, Manner, RemoteProvider
from engine.providers.retry import Retries
from engine.providers.sessions import KEEP_ALIVE_S
from engine.providers.specs import seconds_of, service_of
from engine.providers.transport import IDLE_TIMEOUT_S, REQUEST_TIMEOUT_S, Reach, Timeouts, Transport
from engine.tools.environment import is_ours
from foundation.addresses import AddressPolicy
from foundation.clock import Clock

if TYPE_CHECKING:
    from engine.providers.prices import Prices

Spec = Mapping[str, Any]


class Remotes:
    """Builds providers, and closes what they use.

    `patience_s` is how long one request may take with all its attempts; `workers` share the limits, this process included.
    """

    def __init__(self, keys: Keys, policy: AddressPolicy, prices: "Prices", clock: Clock, *, patience_s: float, workers: int = 1) -> None:
        self._keys = keys
        self._policy = policy
        self._prices = prices
        self._clock = clock
        self._patience_s = patience_s
        self._workers = workers
        self._transport = Transport()
        self._accounts: dict[str, tuple[Limiter, Retries]] = {}

    def build(self, name: str, spec: Spec) -> RemoteProvider:
        """Return the provider of a spec.

        Raises:
            FeatureNotSupported: its type is not built, or needs an extra that is not installed.
            CredentialMissing: its key is not where it should be.
            BundleInvalid: its address is none.
        """
        written = written_address(spec)
        if written and not is_base_url(written):
            raise BundleInvalid(
                f"cannot ask provider '{name}': its address is none of http or https", hint="write scheme, host and path: https://host/v1"
            )
        service = service_of({**spec, "id": name}, self._keys)
        limiter, retries = self._account(name, spec)
        account = Account(limiter, retries, self._prices.of_spec(spec), self._keys.source(spec))
        return RemoteProvider(service, self._transport.pool(self._reach(spec)), account, manner_of(spec), self._clock)

    @property
    def troubles(self) -> Mapping[str, str]:
        """Return why requests wait to be made again, by provider."""
        return {name: retries.trouble for name, (_, retries) in self._accounts.items() if retries.trouble}

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        await self._transport.close()

    def _account(self, name: str, spec: Spec) -> tuple[Limiter, Retries]:
        owner = _owner(name, spec)
        if owner not in self._accounts:
            limiter = Limiter(limits_of(spec, workers=self._workers), self._clock)
            self._accounts[owner] = limiter, Retries(self._clock, patience_s=self._patience_s)
        return self._accounts[owner]

    def _reach(self, spec: Spec) -> Reach:
        wishes = spec.get("http_transport") or {}
        return Reach(
            policy_of(spec, self._policy), int(wishes.get("max_conns_per_host") or 0), seconds_of(wishes.get("idle_conn_timeout"), KEEP_ALIVE_S)
        )


def _owner(name: str, spec: Spec) -> str:
    """Return whose limits a provider keeps to: its own, or those of a job's Provider with a key of its own, which may stand under several ids."""
    variable = str((spec.get("credential") or {}).get("credential_env") or "")
    return variable if spec.get("from_job") and is_ours(variable) else name


def manner_of(spec: Spec) -> Manner:
    """Return how a spec wants its provider to be asked."""
    timeouts = Timeouts(seconds_of(spec.get("request_timeout"), REQUEST_TIMEOUT_S), seconds_of(spec.get("stream_idle_timeout"), IDLE_TIMEOUT_S))
    return Manner(
        headers=spec.get("headers") or {},
        timeouts=timeouts,
        keep_raw=bool(spec.get("include_raw_output")),
        always_streams=(spec.get("additional_config") or {}).get("stream") is True,
        stream_attempts=_stream_attempts(spec.get("stream_retry") or {}),
        most_streams=int(spec.get("stream_max_concurrent") or 0),
    )


def _stream_attempts(wish: Mapping[str, Any]) -> int:
    return 1 if wish.get("enabled") is False else int(wish.get("max_attempts") or 0)
