"""Probes of a process: what they answer, for how long an answer counts, and what a check that fails or hangs looks like."""

import asyncio
from collections.abc import Mapping

import pytest

from arena.cluster.probes import CHECK_S, FRESH_S, Check, Probes, Readiness
from foundation.clock import FakeClock
from foundation.errors import ArenaError


class Part:
    """Something that a process needs."""

    def __init__(self, trouble: str = "") -> None:
        self.trouble = trouble
        self.asked = 0
        self.hangs = False

    async def __call__(self) -> str:
        """Say what is wrong."""
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        return self.trouble


async def refuse() -> str:
    """Fail as a part does that cannot be asked."""
    raise ArenaError("cannot ask: nobody is there")


async def ask(readiness: Readiness, path: str = "/readyz") -> tuple[int, str]:
    """Return status and body of a probe."""
    sent: list[dict[str, object]] = []

    async def send(message: Mapping[str, object]) -> None:
        sent.append(dict(message))

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    await Probes(readiness)({"type": "http", "method": "GET", "path": path, "headers": []}, receive, send)
    status, body = sent[0]["status"], sent[1]["body"]
    assert isinstance(status, int)
    assert isinstance(body, bytes)
    return status, body.decode()


@pytest.mark.parametrize(
    ("checks", "answer"),
    [
        pytest.param({"queue": Part(), "content": Part()}, (200, "[+] queue: ok\n[+] content: ok\n"), id="all well"),
        pytest.param({"queue": Part("it is away"), "content": Part()}, (503, "[-] queue: it is away\n[+] content: ok\n"), id="one away"),
        pytest.param({"queue": refuse}, (503, "[-] queue: cannot ask: nobody is there\n"), id="one that cannot be asked"),
    ],
)
async def test_readyz(checks: Mapping[str, Check], answer: tuple[int, str]) -> None:
    """A process is ready when each of its checks finds nothing; the answer tells what each found."""
    assert await ask(Readiness(checks, FakeClock())) == answer


async def test_healthz() -> None:
    """A process whose event loop turns is healthy, whatever it lacks."""
    part = Part("it is away")
    assert await ask(Readiness({"queue": part}, FakeClock()), "/healthz") == (200, "ok\n")
    assert part.asked == 0
    assert (await ask(Readiness({}, FakeClock()), "/metrics"))[0] == 404


async def test_a_check_that_hangs() -> None:
    """A check that does not come back is a trouble after its time, and keeps no later look waiting."""
    clock, part = FakeClock(), Part()
    part.hangs = True
    readiness = Readiness({"content": part}, clock)
    asking = asyncio.create_task(ask(readiness))
    await clock.advance(0)
    await clock.advance(CHECK_S)
    assert await asking == (503, f"[-] content: no answer within {CHECK_S:g} s\n")
    part.hangs = False
    await clock.advance(FRESH_S)
    assert (await ask(readiness))[0] == 200


async def test_those_who_ask_at_once() -> None:
    """Probes within a second share one look; the next second has its own."""
    clock, part = FakeClock(), Part()
    readiness = Readiness({"queue": part}, clock)
    await asyncio.gather(*(ask(readiness) for _ in range(20)))
    assert part.asked == 1
    part.trouble = "it is away"
    await clock.advance(FRESH_S)
    assert (await ask(readiness))[0] == 503
    assert part.asked == 2


async def test_a_process_that_ends() -> None:
    """A process that is told to end is ready no more, at once."""
    readiness = Readiness({"queue": Part()}, FakeClock())
    assert (await ask(readiness))[0] == 200
    readiness.stop()
    assert await ask(readiness) == (503, "[-] stopping: the process ends\n[+] queue: ok\n")


async def test_what_is_needed_at_first() -> None:
    """What a process needs at first makes it unready until it was ready once; later its trouble is told, and it stays ready."""
    clock, queue, certificate = FakeClock(), Part("it is away"), Part()
    readiness = Readiness({"queue": queue, "certificate": certificate}, clock, at_first={"queue"})
    assert (await ask(readiness))[0] == 503
    queue.trouble = ""
    await clock.advance(FRESH_S)
    assert (await ask(readiness))[0] == 200
    queue.trouble = "it is away"
    await clock.advance(FRESH_S)
    assert await ask(readiness) == (200, "[!] queue: it is away\n[+] certificate: ok\n")
    certificate.trouble = "none is served"
    await clock.advance(FRESH_S)
    assert (await ask(readiness))[0] == 503
