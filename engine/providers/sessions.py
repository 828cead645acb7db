"""Sessions of an HTTP client whose connections go to addresses that a policy lets through, and to no other.

Owns the resolver that checks, and which addresses a job's own endpoints may have. Must not know what is sent.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp.abc import AbstractResolver

from engine.providers.timed import TimedRequest, TimedResponse
from foundation.addresses import Address, AddressPolicy, resolve

if TYPE_CHECKING:
    from aiohttp.abc import ResolveResult

Find = Callable[[str, int], Sequence[Address]]

CONNECT_TIMEOUT_S: Final = 10.0
KEEP_ALIVE_S: Final = 15.0
DNS_CACHE_S: Final = 30
_MAX_RESOLVERS: Final = 8
_READ_BYTES: Final = 1 << 18

OWN_ADDRESSES: Final = AddressPolicy(allows_private=True)
"""For endpoints that the people of an installation wrote themselves, such as those of a job's providers and agents: everything but metadata services,
link-local and reserved addresses."""


def open_session(
    policy: AddressPolicy,
    *,
    find: Find = resolve,
    most_to_a_host: int = 0,
    keep_alive_s: float = KEEP_ALIVE_S,
    connect_timeout_s: float | None = CONNECT_TIMEOUT_S,
    middlewares: Sequence[aiohttp.ClientMiddlewareType] = (),
) -> aiohttp.ClientSession:
    """Return a session without cookies, proxies or time limits but that for reaching a host; whoever opens it closes it.

    It checks what a name resolves to; an address instead of a name is the caller's to check, by `AddressPolicy.refused_host`. A refusal is an `AddressRefused` as the
    `cause_of` aiohttp's error.
    """
    connector = aiohttp.TCPConnector(
        resolver=_Checked(policy, find), ttl_dns_cache=DNS_CACHE_S, limit=0, limit_per_host=most_to_a_host, keepalive_timeout=keep_alive_s
    )
    return aiohttp.ClientSession(
        connector=connector,
        trust_env=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_s),
        headers={"Accept-Encoding": "identity", "User-Agent": "arena"},
        read_bufsize=_READ_BYTES,
        request_class=TimedRequest,
        response_class=TimedResponse,
        middlewares=middlewares,
    )


class AddressRefused(OSError):
    """A name has an address that the policy refuses."""

    def __init__(self, cause: str, network: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.network = network


def cause_of(error: Exception) -> Exception:
    """Return what the system or our resolver said, where a request failed for that; else the error itself."""
    return getattr(error, "os_error", None) or error


class _Checked(AbstractResolver):
    """Resolves names to addresses of which each has passed; connections go to these."""

    def __init__(self, policy: AddressPolicy, find: Find) -> None:
        self._policy = policy
        self._find = find
        self._gate = asyncio.Semaphore(_MAX_RESOLVERS)

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> "list[ResolveResult]":
        del family
        async with self._gate:
            found = await asyncio.to_thread(self._find, host, port)
        if refusal := self._policy.refused(host, found):
            raise AddressRefused(refusal.cause, refusal.network)
        return [_resolved(host, port, address) for address in found]

    async def close(self) -> None:
        """Hold nothing."""


def _resolved(host: str, port: int, address: Address) -> "ResolveResult":
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004 - versions of IP
    return {"hostname": host, "host": str(address), "port": port, "family": family, "proto": 0, "flags": socket.AI_NUMERICHOST}
