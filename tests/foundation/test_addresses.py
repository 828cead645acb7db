"""Which addresses a name may lead to that somebody else wrote."""

from ipaddress import IPv4Network, IPv6Network, ip_address

import pytest

from foundation.addresses import AddressPolicy, Refusal, resolve


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("93.184.216.34", None),
        ("2606:2800:220:1::7", None),
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("::1", "loopback"),
        ("0.1.2.3", "reserved"),
        ("::", "reserved"),
        ("10.1.2.3", "private"),
        ("172.31.0.1", "private"),
        ("192.168.1.1", "private"),
        ("fd12::1", "private"),
        ("100.64.0.1", "shared by carriers (CGNAT)"),
        ("169.254.1.1", "link-local"),
        ("fe80::1", "link-local"),
        ("169.254.169.254", "a cloud's metadata service"),
        ("168.63.129.16", "a cloud's metadata service"),
        ("100.100.100.200", "a cloud's metadata service"),
        ("fd00:ec2::254", "a cloud's metadata service"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("192.0.0.8", "reserved"),
        ("192.0.2.1", "reserved"),
        ("198.18.0.1", "reserved"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("2001:db8::1", "reserved"),
        ("4000::1", "reserved"),
        ("100::1", "reserved"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:93.184.216.34", None),
        ("::7f00:1", "loopback"),
        ("2002:7f00:1::", "loopback"),
        ("2002:a9fe:a9fe::1", "a cloud's metadata service"),
        ("64:ff9b::10.0.0.1", "private"),
        ("64:ff9b::93.184.216.34", None),
        ("64:ff9b:1::1", "reserved"),
        ("2001:0:4136:e378:8000:63bf:80ff:fffe", "loopback"),
    ],
)
def test_which_addresses_are_refused(address: str, problem: str | None) -> None:
    """What is nobody's public host is refused, also when an IPv6 address carries it."""
    assert AddressPolicy().problem(ip_address(address)) == problem


def test_an_operator_allows_networks() -> None:
    """An allowed network lets its own addresses pass, by whatever IPv6 address they are carried, and no others."""
    policy = AddressPolicy((IPv4Network("10.1.0.0/16"), IPv6Network("fd00::/8")))
    assert policy.problem(ip_address("10.1.2.3")) is None
    assert policy.problem(ip_address("::ffff:10.1.2.3")) is None
    assert policy.problem(ip_address("fd00::1")) is None
    assert policy.problem(ip_address("10.2.0.1")) == "private"
    assert policy.problem(ip_address("127.0.0.1")) == "loopback"


def test_a_literal_is_not_looked_up() -> None:
    """An address is itself; names have each address once."""
    assert resolve("192.0.2.7", 443) == [ip_address("192.0.2.7")]
    assert len(resolve("localhost", 443)) == len(set(resolve("localhost", 443)))


def test_a_name_with_one_bad_address_is_refused_whole() -> None:
    """The words name the address, and the network that an operator would allow."""
    refusal = AddressPolicy().refused("a.example", [ip_address("93.184.216.34"), ip_address("10.0.0.5")])
    assert refusal == Refusal("host 'a.example' has address 10.0.0.5, which is private", "10.0.0.5/32")
    assert AddressPolicy().refused("10.0.0.5", [ip_address("10.0.0.5")]) == Refusal("its address is private", "10.0.0.5/32")
    assert AddressPolicy().refused("a.example", [ip_address("93.184.216.34")]) is None
