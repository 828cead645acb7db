"""Whose failures are counted together: addresses that one sender can choose among. Pure."""

import ipaddress

_IPV6_SITE = 64


def site(address: str) -> str:
    """Return an IPv4 address as it is, the site of an IPv6 address, and "" for what is none."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:  # a client of a socket that serves both
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_SITE), strict=False))
