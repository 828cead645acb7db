"""How the user of a run is made, made again and dropped on a real server; where the server makes none; and that workers need each thing that it may do."""

from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import pytest

from engine.errors import EngineError, QueueRefused, QueueUnavailable
from engine.items import ItemError, RunUID, Verdict
from engine.queue.embedded import EmbeddedServer, find_server
from engine.queue.keys import run_keys, run_user
from engine.queue.port import Refusal
from engine.queue.redis import RedisWorkQueue
from engine.queue.scripts import load_script
from engine.queue.users import AGAIN_S, WORKER_COMMANDS, WORKER_SCRIPTS
from engine.records import Record
from foundation.clock import FakeClock
from tests.queue.conftest import eventually, put_items
from tests.queue.run_users import PASSWORD, PLAN, Scene, ask

AT = datetime(2026, 1, 2, tzinfo=UTC)
SHORT_S = 0.02
LONG_S = 30.0


async def everything_that_workers_do(scene: Scene) -> None:
    """Go through each thing that a worker asks of a queue, by each way that its scripts have."""
    worker, run = scene.worker, scene.run
    assert await worker.plan(run) == PLAN
    first, second = await worker.lease(run, worker="w", limit=2, seconds=LONG_S)
    assert await worker.renew(run, [first, second]) == []
    await worker.hand_back(run, [first])
    assert await worker.retry(run, second, delay_s=0.0, error=ItemError("timeout", "late"))
    held = await worker.lease(run, worker="w", limit=3, seconds=SHORT_S)
    assert len(held) == 3
    seen = await worker.wait(run, seen="", seconds=0.01)
    await worker.wait(run, seen=seen, seconds=0.01)

    async def found_again() -> bool:  # a lease that ran out under its own worker stays its own
        return bool(await worker.lease(run, worker="w", limit=3, seconds=SHORT_S))

    await eventually(found_again)
    taken = [await eventually(lambda: worker.lease(run, worker="x", limit=1, seconds=SHORT_S)) for _ in range(3)]
    last = {lease.index: lease for leases in taken for lease in leases}
    costly = [(lease, Record(lease.item, lease.index, Verdict.PASS, AT, AT, cost_usd=1.0, duration_ms=5.0)) for lease in last.values()]
    assert "counted" in await worker.complete(run, costly)
    await worker.refuse(run, Refusal("credential_missing", "m"))  # by another worker, too late
    assert (await worker.state(run)).stopped == "budget"
    await scene.admin.delete(run_keys(scene.queue.installation, run).items)  # as a store that evicts does
    assert (await worker.state(run)).queued == 0


async def test_workers_lack_nothing(scene: Scene) -> None:
    """As its run's user a worker does all its work, from its first connection on, and asks for nothing that it may not."""
    await everything_that_workers_do(scene)
    assert await ask(scene.admin, "ACL", "LOG") == []


@pytest.mark.parametrize("command", WORKER_COMMANDS)
async def test_workers_may_do_nothing_that_they_need_not(scene: Scene, command: str) -> None:
    """Each command of the list is needed: without it some of a worker's work fails."""
    await ask(scene.admin, "ACL", "SETUSER", scene.user, f"-{command}")
    with pytest.raises((EngineError, AssertionError)):
        await everything_that_workers_do(scene)
    (entry,) = {tuple(_facts(entry)[name] for name in ("reason", "object")) for entry in await ask(scene.admin, "ACL", "LOG")}
    assert entry == ("command", command)


def _facts(entry: object) -> dict[str, str]:
    """Return an entry of the ACL's log by its names."""
    pairs = entry if isinstance(entry, dict) else dict(zip(entry[::2], entry[1::2], strict=True))  # type: ignore[index]
    return {key.decode(): value.decode() if isinstance(value, bytes) else str(value) for key, value in pairs.items()}


@pytest.mark.parametrize("name", WORKER_SCRIPTS)
async def test_workers_need_each_script(scene: Scene, each_server: EmbeddedServer, name: str) -> None:
    """Each script of the list is needed: a worker can load none by itself, so without it some of its work fails; whoever makes the user loads it."""
    await ask(scene.admin, "SCRIPT", "FLUSH")
    for other in WORKER_SCRIPTS:
        if other != name:
            await ask(scene.admin, "SCRIPT", "LOAD", load_script(other).text)
    with pytest.raises(EngineError):
        await everything_that_workers_do(scene)
    await scene.queue.users(each_server.url).make(scene.run, PASSWORD)
    assert await ask(scene.admin, "SCRIPT", "EXISTS", load_script(name).sha) == [1]


async def test_nobody_comes_in_with_another_password(scene: Scene) -> None:
    """A run's user has one password, the newest, of which the server is told the digest alone; who is in stays in."""
    assert (await scene.worker.state(scene.run)).items == 3
    await scene.users.make(scene.run, "another")
    stranger = RedisWorkQueue(scene.users.url(scene.run, PASSWORD), installation=scene.queue.installation)
    with pytest.raises(QueueUnavailable, match="password"):
        await stranger.state(scene.run)
    await stranger.close()
    described = await ask(scene.admin, "ACL", "LIST")
    assert any(sha256(b"another").hexdigest().encode() in line for line in described)
    assert not any(b"another" in line for line in described)
    assert (await scene.worker.state(scene.run)).items == 3


async def test_a_dropped_user_is_out(scene: Scene) -> None:
    """Dropping a run's user ends what it has open, lets it in no more, leaves the other run's user alone, and may be done again."""
    assert (await scene.worker.state(scene.run)).items == 3
    for _ in range(2):
        await scene.users.drop(scene.run)
        assert not await scene.users.is_made(scene.run)
        assert await scene.users.runs() == [scene.other]
    with pytest.raises(QueueUnavailable):
        await scene.worker.state(scene.run)


async def test_users_of_another_installation_are_not_ours(scene: Scene, each_server: EmbeddedServer) -> None:
    """Runs of this installation alone are listed, whatever other users the server has."""
    others = RedisWorkQueue(each_server.url, installation=uuid4().hex)
    await others.users(each_server.url).make(scene.run, PASSWORD)
    await ask(scene.admin, "ACL", "SETUSER", "arena", "on")
    assert sorted(await scene.users.runs()) == sorted([scene.run, scene.other])
    await ask(scene.admin, "ACL", "DELUSER", "arena", run_user(others.installation, scene.run))
    await others.close()


async def test_a_server_that_started_again_is_noticed(tmp_path: Path) -> None:
    """A server forgets its users when it starts again; whoever made them knows after the next answer, and makes them again as they were."""
    server = EmbeddedServer(tmp_path)
    queue = RedisWorkQueue(await server.start(), installation="home")
    users, run = queue.users(server.url), RunUID("run")
    await put_items(queue, run, 1)
    await users.make(run, PASSWORD)
    worker = RedisWorkQueue(users.url(run, PASSWORD), installation="home")
    assert (await worker.state(run)).items == 1
    await server.stop()
    await server.start()
    with pytest.raises(QueueUnavailable):
        await worker.state(run)

    async def answered() -> bool:
        try:
            return (await queue.state(run)).items == 1
        except QueueUnavailable:
            return False

    await eventually(answered)
    assert not await users.is_made(run)
    await users.make(run, PASSWORD)
    assert await users.is_made(run)
    assert (await worker.state(run)).items == 1
    for each in (worker, queue):
        await each.close()
    await server.stop()


async def test_a_user_is_made_again_now_and_then(scene: Scene, each_server: EmbeddedServer) -> None:
    """Somebody may have removed a user by hand, so after a minute nobody is sure of it."""
    clock = FakeClock()
    queue = RedisWorkQueue(each_server.url, installation=scene.queue.installation, clock=clock)
    users = queue.users(each_server.url)
    assert not await users.is_made(scene.run)
    await users.make(scene.run, PASSWORD)
    assert await users.is_made(scene.run)
    await clock.advance(AGAIN_S)
    assert not await users.is_made(scene.run)
    await queue.close()


async def test_a_database_of_its_own_can_be_selected(scene: Scene, each_server: EmbeddedServer) -> None:
    """Where the address names a database, workers may select it."""
    users = scene.queue.users(f"{each_server.url}?db=0")
    await users.make(scene.run, PASSWORD)
    assert "+select" not in await scene.rules()
    await scene.queue.users("redis://host/3").make(scene.run, PASSWORD)
    assert "+select" in await scene.rules()


@pytest.mark.parametrize("rule", ["-acl", "-acl|setuser"])
async def test_a_user_who_may_make_no_users(scene: Scene, each_server: EmbeddedServer, rule: str) -> None:
    """A control plane that may make no users learns it from the first attempt, says so, and asks once a minute whether it may by now."""
    name = f"control-{uuid4().hex}"
    await ask(scene.admin, "ACL", "SETUSER", name, "on", "nopass", "allkeys", "allchannels", "+@all", rule)
    clock = FakeClock()
    queue = RedisWorkQueue(each_server.url.replace("unix://", f"unix://{name}:x@"), installation=scene.queue.installation, clock=clock)
    users = queue.users(each_server.url)
    assert ("no permissions" in await users.problem(), users.refusal) == (True, "")
    with pytest.raises(QueueRefused):
        await users.make(scene.run, PASSWORD)
    assert "no permissions" in users.refusal
    assert await users.runs() == []
    await users.drop(scene.run)
    await ask(scene.admin, "ACL", "SETUSER", name, "+@all")
    assert "no permissions" in await users.problem()
    await clock.advance(AGAIN_S)
    assert users.refusal == ""
    await users.make(scene.run, PASSWORD)
    assert scene.run in await users.runs()
    await queue.close()
    await ask(scene.admin, "ACL", "DELUSER", name)


async def test_nothing_to_drop_where_no_users_are_made(scene: Scene, each_server: EmbeddedServer) -> None:
    """A process that has just started, and may make no users, drops and lists none: that is no outage, for which a run that has ended would wait."""
    name = f"control-{uuid4().hex}"
    await ask(scene.admin, "ACL", "SETUSER", name, "on", "nopass", "allkeys", "allchannels", "+@all", "-acl")
    for verb in ("drop", "runs"):
        queue = RedisWorkQueue(each_server.url.replace("unix://", f"unix://{name}:x@"), installation=scene.queue.installation)
        users = queue.users(each_server.url)
        assert not await (users.drop(scene.run) if verb == "drop" else users.runs())
        assert "no permissions" in users.refusal
        await queue.close()
    await ask(scene.admin, "ACL", "DELUSER", name)


async def test_a_server_without_the_command(tmp_path: Path) -> None:
    """A managed server that hides ACL makes no users; its refusal is told apart from an outage, which is none."""
    program = tmp_path / "managed"
    program.write_text(f'#!/bin/sh\nexec {find_server()} "$@" --rename-command ACL ""\n')
    program.chmod(0o700)
    server = EmbeddedServer(tmp_path, find_binary=lambda: program)
    queue = RedisWorkQueue(await server.start(), installation="home")
    users = queue.users(server.url)
    with pytest.raises(QueueRefused):
        await users.make(RunUID("run"), PASSWORD)
    assert "unknown command" in users.refusal.lower()
    assert "share one user" in await users.problem()
    await server.stop()
    with pytest.raises(QueueUnavailable) as outage:
        await queue.users(server.url).make(RunUID("run"), PASSWORD)
    assert not isinstance(outage.value, QueueRefused)
    await queue.close()


async def test_a_server_that_lets_anybody_in(scene: Scene, each_server: EmbeddedServer) -> None:
    """Users of runs keep nobody apart while a client without a password may do everything; a socket of our own is nobody else's."""
    assert await scene.queue.users(each_server.url).problem() == ""
    assert "without a password" in await scene.queue.users("redis://queue:6379").problem()
