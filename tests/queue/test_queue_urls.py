"""Where a credential may stand in the address of a queue server: put there, taken away, and read as redis-py reads it."""

import pytest
import redis.asyncio
from hypothesis import given
from hypothesis import strategies as st

from engine.queue.urls import database_of, password_of, with_credentials, without_credentials

BARE = [
    pytest.param("redis://queue:6379/0", "redis://queue:6379/0", id="none"),
    pytest.param("redis://:secret@queue:6379", "redis://queue:6379", id="password"),
    pytest.param("rediss://user:p%40ss@queue/2?ssl_ca_certs=/ca.pem", "rediss://queue/2?ssl_ca_certs=%2Fca.pem", id="both, with a parameter"),
    pytest.param("redis://u:p@[fd00::1]:6379", "redis://[fd00::1]:6379", id="IPv6"),
    pytest.param("unix:///run/queue.sock", "unix:///run/queue.sock", id="socket"),
    pytest.param("unix://u:p@/run/queue.sock?db=1", "unix:///run/queue.sock?db=1", id="socket with both"),
    pytest.param("unix:///run/queue.sock?db=1&password=secret&username=u", "unix:///run/queue.sock?db=1", id="among the parameters"),
]
PLACE = ("host", "port", "path", "db", "ssl_ca_certs")


@pytest.mark.parametrize(("url", "bare"), BARE)
def test_credentials_are_taken_away(url: str, bare: str) -> None:
    """The address alone has the same scheme, place and parameters, and no credential wherever it stood; doing it twice changes nothing."""
    assert without_credentials(url) == bare
    assert without_credentials(bare) == bare


@pytest.mark.parametrize(("url", "bare"), BARE)
@given(user=st.text(min_size=1, max_size=20), password=st.text(min_size=1, max_size=20))
def test_credentials_are_read_as_they_were_put(url: str, bare: str, user: str, password: str) -> None:
    """Whatever a user and a password consist of, redis-py reads both back, and everything else is as in the bare address."""
    put = with_credentials(url, user, password)
    read, other = (redis.asyncio.ConnectionPool.from_url(each).connection_kwargs for each in (put, bare))
    assert (read["username"], read["password"], password_of(put)) == (user, password, password)
    assert [read.get(name) for name in PLACE] == [other.get(name) for name in PLACE]
    assert without_credentials(put) == bare


@pytest.mark.parametrize(
    ("url", "number"),
    [("redis://q", 0), ("redis://q/3", 3), ("redis://q/3?db=4", 4), ("unix:///7", 0), ("unix:///run/s?db=5", 5), ("rediss://u:p@q:1/x", 0)],
)
def test_the_database_is_the_one_that_redis_selects(url: str, number: int) -> None:
    """The number is what redis-py selects after it has connected."""
    if not url.endswith("/x"):
        assert redis.asyncio.ConnectionPool.from_url(url).connection_kwargs.get("db", 0) == number
    assert database_of(url) == number
