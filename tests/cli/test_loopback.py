"""`arena up --host`: what is said of an address that others can reach."""

import pytest

from arena.cli import server


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        pytest.param("127.0.0.1", True, id="the default"),
        pytest.param("127.8.0.1", True, id="another address of this machine"),
        pytest.param("::1", True, id="the same in IPv6"),
        pytest.param("localhost", True, id="by name"),
        pytest.param("0.0.0.0", False, id="every address"),  # noqa: S104 - nothing listens here
        pytest.param("192.0.2.7", False, id="an address of the network"),
    ],
)
def test_an_address_that_others_reach(host: str, *, loopback: bool) -> None:
    """Only what stays on this machine needs no warning about the token."""
    assert server.is_loopback(host) is loopback
