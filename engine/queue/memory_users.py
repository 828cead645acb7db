"""MemoryRunUsers: users of runs in one process, beside MemoryWorkQueue, for tests and for what needs no store."""

from engine.errors import QueueRefused
from engine.items import RunUID
from engine.queue.keys import run_user
from engine.queue.urls import with_credentials


class MemoryRunUsers:
    """RunUsers in memory: `users` is what the server has, `makings` how often it was asked to make one.

    Once `refuses` is set, the server makes no users, and says so in its words.
    """

    def __init__(self, *, installation: str = "memory", address: str = "redis://queue:6379") -> None:
        self._installation = installation
        self._address = address
        self.users: dict[RunUID, str] = {}
        self.makings = 0
        self.refuses = ""
        self.refusal = ""

    def url(self, run: RunUID, password: str) -> str:
        """Return the address for the workers of `run`."""
        return with_credentials(self._address, run_user(self._installation, run), password)

    def start_again(self, *, address: str = "") -> None:
        """Forget every user, as a server does that starts again; it may be somewhere else then."""
        self.users.clear()
        self._address = address or self._address

    async def is_made(self, run: RunUID) -> bool:
        """Say whether the user is there."""
        return run in self.users

    async def make(self, run: RunUID, password: str) -> None:
        """Make the user of `run`, or set it right."""
        self.makings += 1
        self.refusal = self.refuses
        if self.refuses:
            raise QueueRefused(f"cannot use the queue's store: {self.refuses}")
        self.users[run] = password

    async def drop(self, run: RunUID) -> None:
        """Remove the user of `run`."""
        self.users.pop(run, None)

    async def runs(self) -> list[RunUID]:
        """Return the runs that have a user."""
        return list(self.users)

    async def problem(self) -> str:
        """Say what keeps runs from being apart."""
        return self.refuses
