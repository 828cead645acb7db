"""What a worker that has come under the command of a bundle may do on a real server: nothing outside its run, and not all within it."""

from collections.abc import AsyncIterator, Callable

import pytest
import redis.asyncio
from redis.exceptions import NoPermissionError, RedisError

from engine.queue.keys import run_keys
from engine.queue.scripts import load_script
from tests.queue.run_users import DIGEST, PASSWORD, PLAN, Scene, ask

READING = "return redis.call('GET', KEYS[1])"
OWN, OTHER = "OWN:", "OTHER:"
HOSTILE: list[tuple[str, ...]] = [
    ("EXISTS", "OTHER:meta"),
    ("GET", "OTHER:plan"),
    ("HGETALL", "OTHER:records"),
    ("XRANGE", "OTHER:items", "-", "+"),
    ("XREAD", "STREAMS", "OTHER:wake", "0"),
    ("XREAD", "STREAMS", "OWN:wake", "OTHER:wake", "0", "0"),
    ("XPENDING", "OTHER:items", "workers"),
    ("XINFO", "STREAM", "OTHER:items"),
    ("ZRANGE", "OTHER:delayed", "0", "-1"),
    ("HSET", "OTHER:meta", "stopped", "1"),
    ("HINCRBY", "OTHER:totals", "passed", "1"),
    ("XADD", "OTHER:items", "*", "i", "0"),
    ("XACK", "OTHER:items", "workers", "0-1"),
    ("XREADGROUP", "GROUP", "workers", "w", "STREAMS", "OTHER:items", ">"),
    ("GET", "session"),
    ("GET", "arena:{uid}:meta"),
    ("SET", "OWN:plan", "another"),
    ("DEL", "OWN:records"),
    ("UNLINK", "OTHER:meta"),
    ("RENAME", "OWN:meta", "OTHER:meta"),
    ("COPY", "OTHER:plan", "OWN:plan"),
    ("MIGRATE", "127.0.0.1", "1", "OTHER:plan", "0", "1"),
    ("EVAL", "return 1", "0"),
    ("EVAL", READING, "1", "OWN:plan"),
    ("EVAL", READING, "1", "OTHER:plan"),
    ("EVAL_RO", READING, "1", "OTHER:plan"),
    ("SCRIPT", "LOAD", READING),
    ("SCRIPT", "FLUSH"),
    ("SCRIPT", "KILL"),
    ("FUNCTION", "LOAD", "#!lua name=mine"),
    ("FCALL", "mine", "0"),
    ("KEYS", "*"),
    ("SCAN", "0"),
    ("RANDOMKEY",),
    ("DBSIZE",),
    ("SELECT", "0"),
    ("FLUSHALL",),
    ("FLUSHDB",),
    ("CONFIG", "GET", "*"),
    ("CONFIG", "SET", "maxmemory", "1"),
    ("ACL", "LIST"),
    ("ACL", "GETUSER", "default"),
    ("ACL", "SETUSER", "default", "on", "nopass"),
    ("ACL", "DELUSER", "default"),
    ("MONITOR",),
    ("SLOWLOG", "GET"),
    ("COMMAND",),
    ("CLIENT", "LIST"),
    ("CLIENT", "KILL", "TYPE", "normal"),
    ("CLIENT", "PAUSE", "1000"),
    ("CLIENT", "SETNAME", "control-plane"),
    ("SUBSCRIBE", "OTHER:wake"),
    ("PSUBSCRIBE", "*"),
    ("SSUBSCRIBE", "OTHER:wake"),
    ("PUBLISH", "OTHER:wake", "1"),
    ("MULTI",),
    ("WAIT", "0", "1"),
    ("SHUTDOWN", "NOSAVE"),
    ("BGREWRITEAOF",),
    ("REPLICAOF", "127.0.0.1", "1"),
    ("PSYNC", "?", "-1"),
    ("MODULE", "LIST"),
    ("XGROUP", "DELCONSUMER", "OWN:items", "workers", "w"),
    ("XGROUP", "CREATE", "OTHER:items", "mine", "0"),
]


@pytest.fixture
async def hostile(scene: Scene) -> AsyncIterator["redis.asyncio.Redis"]:
    """Return a plain client that has come in as the run's user."""
    made = redis.asyncio.Redis.from_url(scene.users.url(scene.run, PASSWORD), driver_info=None)
    yield made
    await made.aclose()


def placed(scene: Scene, word: str) -> str:
    """Return a word with the runs' keys in it."""
    keys = {OWN: scene.run, OTHER: scene.other}
    for mark, run in keys.items():
        word = word.replace(mark, run_keys(scene.queue.installation, run).pattern.removesuffix("*"))
    return word


@pytest.mark.parametrize("words", HOSTILE, ids=" ".join)
async def test_a_hostile_worker_is_refused(scene: Scene, hostile: "redis.asyncio.Redis", words: tuple[str, ...]) -> None:
    """A worker that has come under a bundle's command reads and changes nothing of another run, of the server, or of other clients."""
    before = await contents(scene)
    with pytest.raises(NoPermissionError):
        await ask(hostile, *(placed(scene, word) for word in words))
    assert await contents(scene) == before
    assert await ask(hostile, "EXISTS", placed(scene, "OWN:meta")) == 1


READ_ALL: dict[str, Callable[[str], tuple[str, ...]]] = {
    "string": lambda key: ("GET", key),
    "hash": lambda key: ("HGETALL", key),
    "set": lambda key: ("SMEMBERS", key),
    "zset": lambda key: ("ZRANGE", key, "0", "-1", "WITHSCORES"),
    "stream": lambda key: ("XRANGE", key, "-", "+"),
}


async def contents(scene: Scene) -> dict[str, object]:
    """Return the values of all keys of this installation."""
    keys = [key.decode() async for key in scene.admin.scan_iter(f"arena:{scene.queue.installation}:*")]
    return {key: await ask(scene.admin, *READ_ALL[(await ask(scene.admin, "TYPE", key)).decode()](key)) for key in keys}


FOREIGN = [
    pytest.param("lease", ("w", 3, 30000, 0, 0), id="lease"),
    pytest.param("state", (), id="state"),
    pytest.param("plan", (), id="plan"),
    pytest.param("settle", (0,), id="settle"),
    pytest.param("stop", ("cancelled",), id="stop"),
]


@pytest.mark.parametrize("foreign", [11, 1], ids=["all keys", "one key"])
@pytest.mark.parametrize(("name", "arguments"), FOREIGN)
async def test_scripts_reach_no_other_run(
    scene: Scene, hostile: "redis.asyncio.Redis", name: str, arguments: tuple[str | int, ...], foreign: int
) -> None:
    """A script that the server knows runs on the keys of the user's own run alone, whoever loaded it."""
    await scene.admin.script_load(load_script(name).text)
    own, other = (run_keys(scene.queue.installation, run).all() for run in (scene.run, scene.other))
    before = await contents(scene)
    with pytest.raises(NoPermissionError):
        await ask(hostile, "EVALSHA", load_script(name).sha, len(own), *other[:foreign], *own[foreign:], *arguments)
    assert await contents(scene) == before


CONTROL = [
    pytest.param("settle", (60,), id="settle"),
    pytest.param("publish", (DIGEST, PLAN), id="publish"),
    pytest.param("put", ("9", "1", "0", "s/p/1"), id="put"),
    pytest.param("missing", (), id="missing"),
    pytest.param("remaining", ("10", "1", "1"), id="remaining"),
]


@pytest.mark.parametrize(("name", "arguments"), CONTROL)
async def test_scripts_of_the_control_plane_do_not_work_for_workers(
    scene: Scene, hostile: "redis.asyncio.Redis", name: str, arguments: tuple[str | bytes, ...]
) -> None:
    """What only the control plane does to a run is no worker's to do, not even to its own."""
    if name == "remaining":
        await scene.queue.stop(scene.run, "cancelled")
    await scene.admin.script_load(load_script(name).text)
    before = await contents(scene)
    with pytest.raises(RedisError):
        await ask(hostile, "EVALSHA", load_script(name).sha, 11, *run_keys(scene.queue.installation, scene.run).all(), *arguments)
    assert await contents(scene) == before
