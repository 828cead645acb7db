"""RedisRunUsers: the ACL user of each run on a Redis-protocol server, and all that it may do.

What a worker needs is told here and nowhere else: its scripts, and the commands that these and its waiting give. A user can load no script of its
own, so the control plane loads them along with it. Must not know where a password is kept.
"""

from dataclasses import dataclass
from hashlib import sha256

import structlog

from engine.errors import QueueRefused
from engine.items import RunUID
from engine.queue.keys import run_keys, run_of_user, run_user
from engine.queue.scripts import load_script
from engine.queue.store import Argument, RedisStore
from engine.queue.urls import database_of, with_credentials
from foundation.clock import Clock

WORKER_SCRIPTS = ("plan", "lease", "look", "renew", "complete", "retry", "hand_back", "state", "refuse")
"""The scripts that a worker runs."""

WORKER_COMMANDS = (
    "evalsha",
    "exists",
    "get",
    "hget",
    "hgetall",
    "hexists",
    "hincrby",
    "hlen",
    "hmget",
    "hset",
    "hsetnx",
    "info",
    "time",
    "xack",
    "xadd",
    "xclaim",
    "xdel",
    "xgroup|create",
    "xinfo|stream",
    "xlen",
    "xpending",
    "xrange",
    "xread",
    "xreadgroup",
    "zadd",
    "zcard",
    "zrange",
    "zrangebyscore",
    "zrem",
)
"""The commands that those scripts give, and a worker by itself: EVALSHA, INFO (how long the server has been up), XREAD (waiting)."""

AGAIN_S = 60.0
"""After this long a user is made again, and the scripts loaded, in case somebody removed them by hand; and a server that made no users is asked again, in
case its operator lets us now."""

_SHARED = (
    "workers of all runs share one user of the store, which makes none for each: let the control plane's user give ACL SETUSER, DELUSER and USERS"
)
_OPEN = "the store lets in anybody without a password, so users of runs keep nobody apart: give its user 'default' a password (requirepass)"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Made:
    """At which start of the server something was made, and when, on our monotonic clock."""

    server_start: str
    at: float


class RedisRunUsers:
    """RunUsers of one installation. `address` is the URL by which workers reach the server, without credentials."""

    def __init__(self, store: RedisStore, *, installation: str, address: str, clock: Clock) -> None:
        self._store = store
        self._installation = installation
        self._address = address
        self._clock = clock
        self._made: dict[RunUID, _Made] = {}
        self._loaded: _Made | None = None
        self._refusal, self._refused_at = "", 0.0

    @property
    def refusal(self) -> str:
        """Why this server makes no users for us."""
        return self._refusal if self._clock.monotonic() - self._refused_at < AGAIN_S else ""

    def url(self, run: RunUID, password: str) -> str:
        """Return the address for the workers of `run`."""
        return with_credentials(self._address, run_user(self._installation, run), password)

    async def is_made(self, run: RunUID) -> bool:
        """Say whether `make` need not be called."""
        made = self._made.get(run)
        return made is not None and self._is_fresh(made, await self._store.server_start())

    async def make(self, run: RunUID, password: str) -> None:
        """Load the scripts, then make the user: who gets in finds them there."""
        rules = self._rules(run, password)
        try:
            server_start = await self._store.server_start()
            loading = not (self._loaded and self._is_fresh(self._loaded, server_start))
            scripts = [("SCRIPT", "LOAD", load_script(name).text) for name in WORKER_SCRIPTS] if loading else []
            await self._store.commands([*scripts, rules])
        except QueueRefused as error:
            self._heed(error)
            raise
        self._refusal = ""
        self._made[run] = made = _Made(server_start, self._clock.monotonic())
        self._loaded = made if loading else self._loaded

    async def drop(self, run: RunUID) -> None:
        """Remove the user of `run`."""
        self._made.pop(run, None)
        if self.refusal:
            return
        try:
            await self._store.command("ACL", "DELUSER", run_user(self._installation, run))
        except QueueRefused as error:
            self._heed(error)

    async def runs(self) -> list[RunUID]:
        """Return this installation's runs that have a user."""
        if self.refusal:
            return []
        try:
            users = [user.decode() for user in await self._store.command("ACL", "USERS")]
        except QueueRefused as error:
            self._heed(error)
            return []
        found = [run for user in users if (run := run_of_user(self._installation, user))]
        self._made = {run: made for run, made in self._made.items() if run in found}
        return found

    async def problem(self) -> str:
        """Say what keeps runs from being apart on this server."""
        if cause := self.refusal or ("" if self._made else await self._would_refuse()):
            return f"{_SHARED} (it said: {cause})"
        # A socket of ours is private to its owner, and lets nobody else in.
        return "" if self._address.startswith("unix:") or not await self._lets_anybody_in() else _OPEN

    def _heed(self, error: QueueRefused) -> None:
        if error.message != self._refusal:
            _log.warning("queue_users_refused", cause=error.message)
        self._refusal, self._refused_at = error.message, self._clock.monotonic()

    async def _would_refuse(self) -> str:
        """Return what the server would say if it were asked for a user, "" when it would make one."""
        try:
            me = await self._store.command("ACL", "WHOAMI")
            answer: bytes = await self._store.command("ACL", "DRYRUN", me, "ACL", "SETUSER", run_user(self._installation, RunUID("any")))
        except QueueRefused as error:
            return error.message
        return "" if answer == b"OK" else answer.decode()

    async def _lets_anybody_in(self) -> bool:
        """Say whether a client without a password is somebody; one that we may not know of is not judged."""
        try:
            answer = await self._store.command("ACL", "GETUSER", "default")
        except QueueRefused:
            return False
        facts = answer if isinstance(answer, dict) else dict(zip(answer[::2], answer[1::2], strict=True))
        return {b"on", b"nopass"} <= set(facts[b"flags"])

    def _is_fresh(self, made: _Made, server_start: str) -> bool:
        return made.server_start == server_start and self._clock.monotonic() - made.at < AGAIN_S

    def _rules(self, run: RunUID, password: str) -> tuple[Argument, ...]:
        """Return the command that makes the user: everything is taken away first, so that making it again leaves nothing of an older version.

        The server gets the password's digest alone.
        """
        digest, keys = sha256(password.encode()).hexdigest(), run_keys(self._installation, run).pattern
        commands = [*WORKER_COMMANDS, *(["select"] if database_of(self._address) else [])]
        user = run_user(self._installation, run)
        return ("ACL", "SETUSER", user, "reset", "on", f"#{digest}", "resetchannels", f"~{keys}", *(f"+{command}" for command in commands))
