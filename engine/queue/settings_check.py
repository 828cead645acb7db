"""What is wrong with a store's settings, in sentences.

A store that evicts or forgets loses leases and records. Must not know what a run is.
"""

from typing import Any, Protocol

from engine.errors import QueueUnavailable

_OLDEST_MAJOR = 7


class Answering(Protocol):
    """What the check needs of a store."""

    async def command(self, *words: str | bytes | int) -> Any:
        """Run one command."""

    async def info(self, section: str) -> dict[str, Any]:
        """Return a section of INFO."""


async def problems_of(store: Answering) -> list[str]:
    """Return one sentence a problem, with its remedy; [] when there is none.

    A setting that the server does not let us read is not judged.

    Raises:
        QueueUnavailable: the store does not answer at all.
    """
    server = await store.info("server")
    persistence = await store.info("persistence")
    problems = []
    version = str(server.get("valkey_version") or server.get("redis_version", ""))
    if version.partition(".")[0].isdigit() and int(version.partition(".")[0]) < _OLDEST_MAJOR:
        problems.append(f"the store's version is {version}: use Redis 7 or Valkey 7.2, or newer")
    policy = await _setting(store, "maxmemory-policy")
    if policy and policy != "noeviction":
        problems.append(f"maxmemory-policy is {policy}: a full store would drop records; set it to noeviction")
    if not int(persistence.get("aof_enabled", 0)):
        problems.append("appendonly is off: a restart of the store would lose its runs; set appendonly to yes")
    if persistence.get("aof_last_write_status", "ok") != "ok":
        problems.append("the last write to the append-only file failed: free disk space where the store keeps it")
    return problems


async def _setting(store: Answering, name: str) -> str:
    try:
        answer = await store.command("CONFIG", "GET", name)
    except QueueUnavailable:  # managed servers hide CONFIG
        return ""
    pairs = answer if isinstance(answer, dict) else dict(zip(answer[::2], answer[1::2], strict=True))
    value = next(iter(pairs.values()), "")
    return value.decode() if isinstance(value, bytes) else str(value)
