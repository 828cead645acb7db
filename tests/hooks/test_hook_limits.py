"""What one delivery, one sender and one project may take: bodies, time, memory, attempts."""

import asyncio
import json
import tracemalloc

import pytest
from starlette.datastructures import Headers

from foundation.clock import FakeClock
from hooks.errors import Refused
from hooks.hosts import HOSTS
from hooks.intake import BodyLimits, Intake
from hooks.intake import Incoming as Body
from hooks.rate_limit import Rate, RateLimit
from hooks.receiver import HookLimits, Receiver
from tests.hooks.sender import FORM, JSON, PROJECT, SECRET_TEXT, TEAM, Hooks, Incoming, event_header, proof, push

URL = "https://git.example.com/team/prompts.git"
PATH = f"/hooks/github/{TEAM}/{PROJECT}"
MIB = 1024 * 1024


def padded(size: int) -> bytes:
    """Return a push of so many bytes."""
    payload = push("github", URL)[0]
    rest = size - len(json.dumps({**payload, "commits": ""}))
    return json.dumps({**payload, "commits": "x" * rest}).encode()


def headers(body: bytes, secret: str = SECRET_TEXT) -> dict[str, str]:
    """Return the head of a delivery from GitHub."""
    return {**proof("github", body, body, secret), **event_header("github", "push")}


async def test_the_largest_payload_of_a_host(hooks: Hooks) -> None:
    """25 MB, the most that GitHub and GitLab deliver, is taken; and one of a size that used to be too large elsewhere."""
    await hooks.subscribe("github", URL)
    for size in (2 * MIB, 25_000_000):
        body = padded(size)
        assert (await hooks.post(PATH, body, headers(body))).status == 202


def test_a_payload_that_names_its_repository_too_often() -> None:
    """Of what a stranger writes into a list only the first addresses are compared: each costs microseconds, and each project is asked."""
    links = [{"href": f"https://git.example.com/{number}"} for number in range(1000)]
    notice = HOSTS["bitbucket-server"].notice(Headers({}), {"repository": {"links": {"clone": links}}})
    assert len(notice.repositories) == 10


async def test_a_length_that_is_too_large(hooks: Hooks) -> None:
    """A body that says it is too large is refused before a byte of it is read into memory, with what to do."""
    incoming = Incoming([b"x" * 100], stalls=True)
    answer = await hooks.post(PATH, incoming, {**headers(b""), "content-length": str(26 * MIB + 1)})
    assert answer.status == 413
    assert "poll" in answer.text
    assert answer.headers["connection"] == "close"


async def test_a_body_that_grows_too_large(hooks: Hooks) -> None:
    """A body without a length is counted as it comes, and refused as soon as it is too large."""
    incoming = Incoming([b"x" * MIB] * 40)
    answer = await hooks.post(PATH, incoming, headers(b""))
    assert answer.status == 413
    assert incoming.read_bytes <= 27 * MIB


@pytest.mark.parametrize("length", ["-1", "²", "1e3", "9" * 100, "", " "])
async def test_a_length_that_is_none(hooks: Hooks, length: str) -> None:
    """A length that is no number is left to the count."""
    await hooks.subscribe("github", URL)
    body = padded(500)
    assert (await hooks.post(PATH, Incoming([body]), {**headers(body), "content-length": length})).status in (202, 413)


@pytest.mark.parametrize("path", [PATH, "/hooks/github"])
async def test_what_is_read_of_a_stranger_before_he_is_known(hooks: Hooks, path: str) -> None:
    """A form, and a delivery to the address of all projects, have to be read before the sender is known: they may have 1 MiB."""
    await hooks.subscribe("github", URL)
    body = b"payload=" + b"%7b" * MIB if path == PATH else padded(MIB + 1)
    kind = FORM if path == PATH else JSON
    assert (await hooks.post(path, body, {**headers(body), "content-type": kind})).status == 413


async def test_a_body_that_does_not_come() -> None:
    """A body has ten seconds, which is as long as the hosts wait for an answer; here it has less."""
    hooks = Hooks(HookLimits(body=BodyLimits(deadline_s=0.05)))
    await hooks.subscribe("github", URL)
    answer = await hooks.post(PATH, Incoming([b"{"], stalls=True), headers(b"{}"))
    await hooks.cluster.close()
    assert (answer.status, answer.headers["connection"]) == (408, "close")


async def test_a_sender_who_leaves(hooks: Hooks) -> None:
    """A sender who is gone before the body's end gets no answer, and nothing is asked for."""
    await hooks.subscribe("github", URL)
    body = padded(500)
    answer = await hooks.post(PATH, Incoming([body[:100]], gone=True), headers(body))
    assert (answer.status, await hooks.stamp()) == (0, None)


async def test_a_small_body_is_read_before_it_is_refused(hooks: Hooks) -> None:
    """Who is refused for his head still gets the answer, on a connection that can be used again."""
    answer = await hooks.post(PATH, Incoming([b"x" * 1000, b"y" * 1000]), {"content-type": "text/plain"})
    assert answer.status == 415
    assert "connection" not in answer.headers


async def test_large_bodies_share_bounded_room() -> None:
    """All large bodies together are held within bounds; a usual one always has room."""
    intake = Intake(BodyLimits(held_bytes=3 * MIB))
    large = [b"x" * 65536] * 20
    async with intake.read(Body(Incoming(large).receive), Headers(), 25 * MIB), intake.read(Body(Incoming(large).receive), Headers(), 25 * MIB):
        with pytest.raises(Refused, match="too many large ones") as refused:
            async with intake.read(Body(Incoming(large).receive), Headers(), 25 * MIB):
                pass
        assert refused.value.status == 429
        async with intake.read(Body(Incoming([b"x" * 60_000]).receive), Headers(), 25 * MIB) as usual:
            assert len(usual) == 60_000
    async with intake.read(Body(Incoming(large).receive), Headers(), 25 * MIB) as again:
        assert len(again) == 20 * 65536


async def test_a_failure_within_the_block_is_no_slow_body() -> None:
    """A time-out of whoever uses the body is its own, and the room is given back."""
    intake = Intake(BodyLimits(held_bytes=MIB))
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with intake.read(Body(Incoming([b"x" * 65536] * 12).receive), Headers(), 25 * MIB):
                raise TimeoutError


async def test_whoever_fails_too_often(hooks: Hooks) -> None:
    """After 20 failures an address is told to wait; another address is not, and after a while neither is this one."""
    answers = [(await hooks.post(PATH, b"{}")).status for _ in range(25)]
    assert answers == [401] * 20 + [429] * 5
    limited = await hooks.post(PATH, b"{}")
    assert 1 <= int(limited.headers["retry-after"]) <= 2
    assert (await hooks.post(PATH, b"{}", client=("192.0.2.8", 4000))).status == 401
    await hooks.clock.advance(2)
    assert (await hooks.post(PATH, b"{}")).status == 401


@pytest.mark.parametrize("path", [PATH, "/hooks/github"])
async def test_who_is_proven_passes_beside_those_who_fail(hooks: Hooks, path: str) -> None:
    """Behind a proxy all senders share one address: whoever proves himself is taken however many others failed there."""
    await hooks.subscribe("github", URL)
    for _ in range(60):
        await hooks.post(path, b"{}")
    assert (await hooks.deliver("github", push("github", URL)[0], path=path)).status == 202


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        pytest.param("192.0.2.7", "192.0.2.8", False, id="two IPv4 addresses"),
        pytest.param("2001:db8::1", "2001:db8::ffff:1", True, id="two IPv6 addresses of a site"),
        pytest.param("2001:db8::1", "2001:db8:0:1::1", False, id="two IPv6 sites"),
    ],
)
async def test_what_counts_as_one_source(hooks: Hooks, one: str, other: str, *, shared: bool) -> None:
    """Failures are counted by IPv4 address and by IPv6 site, of which one sender has a whole one."""
    for port in range(21):
        await hooks.post(PATH, b"{}", client=(one, port))
    assert (await hooks.post(PATH, b"{}", client=(other, 1))).status == (429 if shared else 401)


async def test_a_connection_without_an_address(hooks: Hooks) -> None:
    """Behind a unix socket there is no address; that is one source like any other."""
    assert (await hooks.post(PATH, b"{}", client=None)).status == 401


async def test_mistakes_of_the_proven_are_no_failures(hooks: Hooks) -> None:
    """Whoever knows the secret and sends nonsense is told so each time."""
    await hooks.subscribe("github", URL)
    assert {(await hooks.deliver("github", b"nonsense")).status for _ in range(30)} == {400}


async def test_one_project_is_asked_for_only_so_often(hooks: Hooks) -> None:
    """Proven deliveries have a limit of their own for each project, wide enough for any team."""
    await hooks.subscribe("github", URL)
    await hooks.subscribe("github", URL, key="team/second")
    answers = [(await hooks.deliver("github", push("github", URL)[0])).status for _ in range(65)]
    assert answers == [202] * 60 + [429] * 5
    assert (await hooks.deliver("github", push("github", URL)[0], path="/hooks/github/team/second")).status == 202
    await hooks.clock.advance(1)
    assert (await hooks.deliver("github", push("github", URL)[0])).status == 202


async def test_ten_at_once_are_two_writes(hooks: Hooks) -> None:
    """Deliveries that come while the project is being stamped share the next stamp."""
    await hooks.subscribe("github", URL)
    payload = push("github", URL)[0]
    answers = await asyncio.gather(*(hooks.deliver("github", payload) for _ in range(10)))
    stamps = {answer.json["requested"][0]["sync"] for answer in answers}
    assert {answer.status for answer in answers} == {202}
    assert len(stamps) <= 2
    assert await hooks.stamp() in stamps


async def test_a_flood_of_sources_is_bounded() -> None:
    """However many addresses there are, as many as the limit allows are remembered."""
    limit = RateLimit(Rate(burst=1, every_s=10), FakeClock(), max_keys=100)
    tracemalloc.start()
    for number in range(10_000):
        limit.take(number)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100_000


async def test_a_bucket() -> None:
    """A bucket gives its burst at once, then one a period; what is not there is not taken, and an idle one is full again."""
    clock = FakeClock()
    limit = RateLimit(Rate(burst=3, every_s=2), clock)
    assert [limit.take("a") for _ in range(4)] == [0, 0, 0, 2]
    await clock.advance(1)
    assert (limit.take("a"), limit.wait_s("a")) == (1, 1)
    await clock.advance(1)
    assert (limit.take("a"), limit.take("a")) == (0, 2)
    await clock.advance(100)
    assert [limit.take("a") for _ in range(4)] == [0, 0, 0, 2]
    assert limit.wait_s("never seen") == 0


async def test_an_unproven_flood_parses_nothing_large(hooks: Hooks) -> None:
    """A body of the largest size from a stranger is hashed and dropped; it is never parsed."""
    await hooks.subscribe("github", URL)
    body = b'{"a": ' + b"[" * (5 * MIB)
    assert (await hooks.post(PATH, body, headers(body, "guessed"))).status == 401


async def test_limits_are_whats_given() -> None:
    """An installation's own limits are the ones that count."""
    hooks = Hooks()
    hooks.receiver = Receiver(hooks.cluster, hooks.clock, HookLimits(failures=Rate(burst=1, every_s=1.0)))
    assert [(await hooks.post(PATH, b"{}")).status for _ in range(2)] == [401, 429]
    await hooks.cluster.close()


@pytest.mark.parametrize("host", HOSTS)
async def test_every_host_counts_failures(hooks: Hooks, host: str) -> None:
    """No host's receiver is without the limit."""
    answers = {(await hooks.post(f"/hooks/{host}/team/prompts", b"{}")).status for _ in range(25)}
    assert answers == {401, 429}
