"""Two runs on a real server, and a worker that comes as the user of one of them. On our own server, and on redis-server where there is one."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis.asyncio

from engine.items import RunUID
from engine.queue.embedded import find_server
from engine.queue.keys import run_user
from engine.queue.port import RunMeta
from engine.queue.redis import RedisWorkQueue
from engine.queue.users import RedisRunUsers

PLAN = b"{}"
DIGEST = f"sha256:{sha256(PLAN).hexdigest()}"
BUDGET_USD = 0.5
PASSWORD = "a run's own password"
REDIS = shutil.which("redis-server")
SERVERS = [
    pytest.param(find_server, id="our own"),
    pytest.param(lambda: Path(str(REDIS)), id="redis-server", marks=pytest.mark.skipif(REDIS is None, reason="no redis-server on PATH")),
]


async def ask(client: "redis.asyncio.Redis", *words: str | bytes | int) -> Any:
    """Run one command."""
    execute: Callable[..., Awaitable[Any]] = client.execute_command
    return await execute(*words)


@dataclass(frozen=True)
class Scene:
    """A run whose worker comes as its user, and another run; `admin` may do everything."""

    queue: RedisWorkQueue
    users: RedisRunUsers
    run: RunUID
    other: RunUID
    worker: RedisWorkQueue
    admin: "redis.asyncio.Redis"

    @property
    def user(self) -> str:
        """Return the name of the run's user."""
        return run_user(self.queue.installation, self.run)

    async def rules(self) -> str:
        """Return what the server says of the run's user."""
        lines: list[bytes] = await ask(self.admin, "ACL", "LIST")
        return next(line for line in lines if self.user.encode() in line).decode()


@asynccontextmanager
async def two_runs(url: str) -> AsyncIterator[Scene]:
    """Put two runs of three items on a server, each with a user."""
    queue = RedisWorkQueue(url, installation=uuid4().hex)
    users, run, other = queue.users(url), RunUID(str(uuid4())), RunUID(str(uuid4()))
    for each in (run, other):
        await queue.pin(each, RunMeta(DIGEST, 3, budget_usd=BUDGET_USD))
        await queue.publish_plan(each, PLAN)
        await queue.put(each, 0, [(index, f"s/p/{index + 1}") for index in range(3)], last=True)
        await users.make(each, PASSWORD)
    worker = RedisWorkQueue(users.url(run, PASSWORD), installation=queue.installation)
    admin = redis.asyncio.Redis.from_url(url)
    await ask(admin, "ACL", "LOG", "RESET")
    yield Scene(queue, users, run, other, worker, admin)
    for client in (worker, queue):
        await client.close()
    await admin.aclose()
