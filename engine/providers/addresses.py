"""Where the providers of a plan may be: which addresses a policy lets each reach, and which of them are refused before anybody is asked.

Owns the rule that a bundle's addresses are public ones and those of a job and our own defaults may be private too. Must not know connections.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from engine.errors import FeatureNotSupported
from engine.providers.specs import is_built
from foundation.addresses import AddressPolicy

Spec = Mapping[str, Any]


def written_address(spec: Spec) -> str:
    """Return the address that a spec gives, "" where the vendor's own stands."""
    return str(spec.get("base_url") or (spec.get("platform") or {}).get("endpoint") or "")


def policy_of(spec: Spec, policy: AddressPolicy) -> AddressPolicy:
    """Return where a provider's connections may go: as `policy` says for an address that a bundle gives, to private networks too for others."""
    is_own = bool(spec.get("from_job")) or not written_address(spec)
    return replace(policy, allows_private=True) if is_own else policy


def allowing(network: str) -> str:
    """Return the remedy where a network is not allowed."""
    return f"an operator may allow it: --allow-network {network}"


def refused_addresses(specs: Mapping[str, Spec], policy: AddressPolicy) -> Iterator[tuple[str, str, str]]:
    """Yield name, sentence and remedy of each provider whose address, written as one and not as a name, may not be reached."""
    for name in sorted(specs):
        address = written_address(specs[name])
        if not address or not is_built(specs[name]):
            continue
        if refusal := policy_of(specs[name], policy).refused_host(urlsplit(address).hostname or ""):
            yield name, f"cannot ask provider '{name}': '{address}' may not be reached: {refusal.cause}", allowing(refusal.network)


def check_addresses(specs: Mapping[str, Spec], policy: AddressPolicy) -> None:
    """Refuse providers, by name, whose addresses may not be reached, before anything is asked.

    Raises:
        FeatureNotSupported: the message names each such provider and its address.
    """
    refused = list(refused_addresses(specs, policy))
    if refused:
        raise FeatureNotSupported("\n".join(sentence for _, sentence, _ in refused), hint=refused[0][2])
