"""Failed logins: how many are answered, whom they concern, and what they leave in the log and in memory."""

import pytest
from structlog.testing import capture_logs

from arena.authorization.errors import NotAuthenticated, TooManyFailures
from arena.authorization.failures import FailureLimits, Failures
from arena.authorization.port import fetch
from foundation.clock import FakeClock
from hooks.rate_limit import MAX_KEYS, Rate
from hooks.sources import site

HERE, THERE = "192.0.2.7", "198.51.100.9"
ACTION = fetch("team", "support")


def fail(failures: Failures, source: str = HERE, times: int = 1) -> list[type[Exception]]:
    """Let logins fail; return what each is answered."""
    return [type(failures.refuse(NotAuthenticated("cannot log in", cause="a wrong token"), source, ACTION)) for _ in range(times)]


def test_one_address(clock: FakeClock) -> None:
    """An address may fail 20 times at once, and then once in two seconds."""
    failures = Failures(clock)
    assert fail(failures, times=21) == [NotAuthenticated] * 20 + [TooManyFailures]


async def test_time_heals(clock: FakeClock) -> None:
    """An address is told when it may try again, and then it may."""
    failures = Failures(clock)
    fail(failures, times=20)
    error = failures.refuse(NotAuthenticated("cannot log in"), HERE, ACTION)
    assert isinstance(error, TooManyFailures)
    assert error.retry_after_s == 2
    await clock.advance(error.retry_after_s)
    assert not failures.is_suspect(HERE)
    assert fail(failures, times=2) == [NotAuthenticated, TooManyFailures]


def test_other_addresses_are_not_concerned(clock: FakeClock) -> None:
    """What one address fails at makes no other suspect."""
    failures = Failures(clock)
    fail(failures, times=100)
    assert (failures.is_suspect(HERE), failures.is_suspect(THERE)) == (True, False)


def test_failures_of_all_together(clock: FakeClock) -> None:
    """Where many addresses fail, one failure is enough to be suspect; an address that has had none is as good as ever."""
    failures = Failures(clock, FailureLimits(all=Rate(burst=30, every_s=60.0)))
    for number in range(30):
        assert fail(failures, f"203.0.113.{number}") == [NotAuthenticated]
    assert failures.is_suspect("203.0.113.0")
    assert fail(failures, "203.0.113.0") == [TooManyFailures]
    assert not failures.is_suspect(HERE)
    assert fail(failures, times=2) == [NotAuthenticated, TooManyFailures]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param("2001:db8::1", "2001:db8::ffff", True, id="two addresses of an IPv6 site"),
        pytest.param("2001:db8::1", "2001:db8:0:1::1", False, id="two IPv6 sites"),
        pytest.param("::ffff:192.0.2.7", "192.0.2.7", True, id="an IPv4 address in IPv6's clothes"),
        pytest.param("::ffff:192.0.2.7", "::ffff:192.0.2.8", False, id="two IPv4 addresses in them"),
        pytest.param("192.0.2.7", "192.0.2.8", False, id="two IPv4 addresses"),
        pytest.param("", "unix", True, id="no address"),
    ],
)
def test_what_counts_as_one_address(one: str, other: str, *, same: bool) -> None:
    """What one sender can choose among counts together, and nothing else does."""
    assert (site(one) == site(other)) is same


def test_what_is_logged(clock: FakeClock) -> None:
    """Each failure leaves a line with source, action and cause; those beyond the limit leave one in a minute."""
    failures = Failures(clock)
    with capture_logs() as logs:
        fail(failures, times=50)
    assert [entry["event"] for entry in logs] == ["login failed"] * 20 + ["logins limited"]
    assert logs[0] == {
        "event": "login failed",
        "log_level": "warning",
        "source": HERE,
        "action": "get arenaprojects/git 'team/support'",
        "cause": "a wrong token",
    }


def test_memory_is_bounded(clock: FakeClock) -> None:
    """However many addresses fail, those of the last 4,096 are remembered; with all together used up, they are still each let try once."""
    failures = Failures(clock)
    for number in range(MAX_KEYS + 500):
        fail(failures, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert not failures.is_suspect("10.0.0.0")
    assert failures.is_suspect(f"10.0.{(MAX_KEYS + 499) >> 8}.{(MAX_KEYS + 499) & 255}")
    assert not failures.is_suspect(THERE)
