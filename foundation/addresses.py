"""Addresses: which ones a name may lead to that somebody else wrote, a remote's, a tool's or a picture's.

Owns the table of networks that are nobody's public host, and how IPv6 addresses that carry an IPv4 address are read. Who connects resolves a name
once; every address it has must pass, and what passes is what the connection is pinned to, so a name that flips between check and use leads nowhere else.
"""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str, int], Sequence[Address]]
"""Return the addresses of a host, in the order in which to try them. Blocking. Raises OSError when it has none."""

MOST_ADDRESSES = 64

_PUBLIC_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_NAMED: Sequence[tuple[str, Network]] = tuple(
    (name, ip_network(network))
    for name, networks in {
        "loopback": "127.0.0.0/8 ::1/128",
        "a cloud's metadata service": "169.254.169.254/32 168.63.129.16/32 100.100.100.200/32 fd00:ec2::254/128",
        "link-local": "169.254.0.0/16 fe80::/10",
        "private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7",
        "shared by carriers (CGNAT)": "100.64.0.0/10",
        "multicast": "224.0.0.0/4 ff00::/8",
        "reserved": (
            "0.0.0.0/8 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 "
            "::/128 64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 3fff::/20"
        ),
    }.items()
    for network in networks.split()
)

_OWN: Sequence[str] = ("loopback", "private", "shared by carriers (CGNAT)")


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Which addresses may be reached beyond public ones: `allowed_networks`, which only an operator gives.

    `allows_private` lets in an organisation's own networks (loopback, private, CGNAT) as well, for addresses that its own people wrote; what is
    metadata, link-local or reserved stays out.
    """

    allowed_networks: tuple[Network, ...] = ()
    allows_private: bool = False

    def problem(self, address: Address) -> str | None:
        """Say what speaks against an address (`loopback`, `private`, …); None when it may be used.

        IPv6 addresses that carry an IPv4 one (mapped, compatible, 6to4, NAT64, Teredo) are judged by that one.
        """
        if any(address in network for network in self.allowed_networks if network.version == address.version):
            return None
        carried = _carried(address)
        if carried is not None:
            return self.problem(carried)
        named = next((name for name, network in _NAMED if network.version == address.version and address in network), None)
        if named is None and isinstance(address, IPv6Address) and address not in _PUBLIC_V6:
            return "reserved"
        return None if self.allows_private and named in _OWN else named

    def refused(self, host: str, addresses: Sequence[Address]) -> "Refusal | None":
        """Return what speaks against a host of these addresses, None when nothing does: a name with one bad address is refused whole."""
        for address in addresses:
            problem = self.problem(address)
            if problem is not None:
                said = f"its address is {problem}" if str(address) == host else f"host '{host}' has address {address}, which is {problem}"
                return Refusal(said, f"{address}/{address.max_prefixlen}")
        return None

    def refused_host(self, host: str) -> "Refusal | None":
        """Return what speaks against a host that is written as an address; None when nothing does, or when it is a name."""
        try:
            return self.refused(host, [ip_address(host)])
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a host may not be reached, in words, and the network that an operator would have to allow."""

    cause: str
    network: str


def resolve(host: str, port: int) -> Sequence[Address]:
    """Ask the system's resolver for the addresses of `host`, without duplicates. Blocking: as long as the resolver takes.

    Raises:
        OSError: the name has none, or nobody answers.
    """
    try:
        return [ip_address(host)]
    except ValueError:
        pass
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    addresses = dict.fromkeys(ip_address(str(entry[4][0]).partition("%")[0]) for entry in found)
    return list(addresses)[:MOST_ADDRESSES]


def _carried(address: Address) -> IPv4Address | None:
    if not isinstance(address, IPv6Address):
        return None
    if address in _NAT64 or (int(address) >> 32 == 0 and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)
