"""One Redis-protocol store: its connections, its scripts, and its failures as our errors.

The only module that talks to redis-py. Must not know what the scripts mean.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import TimeoutError as NoAnswer

from engine.errors import EngineError, PutRefused, QueueRefused, QueueUnavailable, RunSettled, RunUnknown
from engine.queue.contact import Contact
from engine.queue.scripts import load_script

CALL_TIMEOUT_S = 15.0
"""A call that has no answer after this long has failed."""

MAX_BLOCK_S = 5.0
"""The longest that one blocking read waits."""

Argument = str | bytes | int
_REFUSALS: dict[str, type[EngineError]] = {
    "ARENASETTLED": RunSettled,
    "ARENAUNKNOWN": RunUnknown,
    "ARENASTOPPED": PutRefused,
    "ARENARUNNING": PutRefused,
    "ARENAREFUSED": PutRefused,
}
_NOT_KNOWN = ("unknown command", "unknown subcommand", "error in acl setuser")
_HINTS: tuple[tuple[type[Exception], str, str], ...] = (
    (OutOfMemoryError, "", "the store is full: raise its maxmemory; the policy must stay noeviction"),
    (ResponseError, "MISCONF", "the store cannot write its append-only file: free disk space"),
    (AuthenticationError, "", "check the user and the password in the store's URL"),
    (NoPermissionError, "", "see docs/adr/0013 for what the users of control plane and workers must be allowed"),
    (ReadOnlyError, "", "this is a replica: use the primary's URL"),
)


class RedisStore:
    """A Redis-protocol server behind `url` (redis://, rediss:// or unix://), with its contact time.

    Nothing is sent twice: whether a repetition is safe is the caller's to know.
    """

    def __init__(self, url: str, contact: Contact) -> None:
        self._contact = contact
        self._connections = 0
        self._asked_at, self._server_start = -1, ""
        self._redis = redis.asyncio.Redis.from_url(
            url,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=CALL_TIMEOUT_S,
            socket_connect_timeout=CALL_TIMEOUT_S,
            max_connections=64,
            driver_info=None,  # a run's user may not introduce its client
            redis_connect_func=self._connect,
        )
        self._execute: Callable[..., Awaitable[Any]] = self._redis.execute_command

    async def script(self, name: str, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """Run a script, loading it when the server does not know it.

        Raises:
            RunSettled, RunUnknown, PutRefused: the script refused.
            QueueUnavailable: no answer, or one that a server in good order does not give.
        """
        script = load_script(name)
        try:
            answer = await self._execute("EVALSHA", script.sha, len(keys), *keys, *arguments)
        except NoScriptError:
            answer = await self.command("EVAL", script.text, len(keys), *keys, *arguments)
        except (RedisError, OSError) as error:
            raise self._translated(error) from error
        self._contact.heard()
        return answer

    async def command(self, *words: Argument) -> Any:
        """Run one command.

        Raises:
            QueueUnavailable: no answer, or an error.
        """
        try:
            answer = await self._execute(*words)
        except (RedisError, OSError) as error:
            raise self._translated(error) from error
        self._contact.heard()
        return answer

    async def commands(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Run commands one after the other in one request, and return their answers; one that fails keeps none of the others from running.

        Raises:
            QueueUnavailable: no answer, or an error; the first one.
        """
        pipeline = self._redis.pipeline(transaction=False)
        for words in commands:
            pipeline.execute_command(*words)
        try:
            answers: list[Any] = await pipeline.execute(raise_on_error=False)
            if failure := next((answer for answer in answers if isinstance(answer, RedisError)), None):
                raise failure
        except (RedisError, OSError) as error:
            raise self._translated(error) from error
        self._contact.heard()
        return answers

    async def server_start(self) -> str:
        """Return what tells this start of the server from every other; a start ends all connections, so it is asked once a connection.

        Raises:
            QueueUnavailable: no answer, or an error.
        """
        if self._asked_at != self._connections:
            connections = self._connections
            self._server_start = str((await self.info("server")).get("run_id", ""))
            self._asked_at = connections
        return self._server_start

    async def wait_for_entry(self, streams: Sequence[tuple[str, str]], seconds: float) -> None:
        """Wait at most `MAX_BLOCK_S` and `seconds` until one of (stream, last entry seen) has a newer entry."""
        milliseconds = max(1, int(min(seconds, MAX_BLOCK_S) * 1000))
        names, entries = zip(*streams, strict=True)
        await self.command("XREAD", "COUNT", 1, "BLOCK", milliseconds, "STREAMS", *names, *entries)

    async def info(self, section: str) -> dict[str, Any]:
        """Return a section of INFO, parsed."""
        answer = await self.command("INFO", section)
        return dict(answer)

    async def close(self) -> None:
        """Close all connections."""
        await self._redis.aclose()

    async def _connect(self, connection: "redis.asyncio.connection.AbstractConnection") -> None:
        await connection.on_connect()
        self._connections += 1

    def _translated(self, error: Exception) -> EngineError:
        word = str(error).partition(" ")[0]
        if isinstance(error, ResponseError) and word in _REFUSALS:
            self._contact.heard()
            return _REFUSALS[word](f"cannot use the queue: {str(error).partition(' ')[2]}")
        if isinstance(error, (LostConnection, NoAnswer, OSError)):
            self._contact.lost()
        hint = next((hint for kind, first, hint in _HINTS if isinstance(error, kind) and word.startswith(first)), "")
        refused = isinstance(error, NoPermissionError) or (isinstance(error, ResponseError) and str(error).lower().startswith(_NOT_KNOWN))
        return (QueueRefused if refused else QueueUnavailable)(f"cannot use the queue's store: {error}", hint=hint)
