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

from engine.errors import EngineError, PutRefused, QueueUnavailable, RunSettled, RunUnknown
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
_HINTS: tuple[tuple[type[Exception], str, str], ...] = (
    (OutOfMemoryError, "", "the store is full: raise its maxmemory; the policy must stay noeviction"),
    (ResponseError, "MISCONF", "the store cannot write its append-only file: free disk space"),
    (AuthenticationError, "", "check the user and the password in the store's URL"),
    (NoPermissionError, "", "allow this user scripts, streams and hashes on the keys arena:*"),
    (ReadOnlyError, "", "this is a replica: use the primary's URL"),
)


class RedisStore:
    """A Redis-protocol server behind `url` (redis://, rediss:// or unix://), with its contact time.

    Nothing is sent twice: whether a repetition is safe is the caller's to know.
    """

    def __init__(self, url: str, contact: Contact) -> None:
        self._contact = contact
        self._redis = redis.asyncio.Redis.from_url(
            url,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=CALL_TIMEOUT_S,
            socket_connect_timeout=CALL_TIMEOUT_S,
            max_connections=64,
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

    def _translated(self, error: Exception) -> EngineError:
        word = str(error).partition(" ")[0]
        if isinstance(error, ResponseError) and word in _REFUSALS:
            self._contact.heard()
            return _REFUSALS[word](f"cannot use the queue: {str(error).partition(' ')[2]}")
        if isinstance(error, (LostConnection, NoAnswer, OSError)):
            self._contact.lost()
        hint = next((hint for kind, first, hint in _HINTS if isinstance(error, kind) and word.startswith(first)), "")
        return QueueUnavailable(f"cannot use the queue's store: {error}", hint=hint)
