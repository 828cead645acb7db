"""The content volume as a process shares it with others, of this and of other machines: fit for that, writable, and with locks that reach everybody.

Owns when the volume is looked at and how that is told. What makes a volume fit is `gitops`' to know, and so is what lies on it.
"""

import asyncio
import os
import secrets
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio.to_thread
import structlog

from foundation.clock import Clock
from gitops.content import ContentVolume
from gitops.errors import StorageFailed
from gitops.replica_watch import ReplicaWatch
from gitops.storage_errors import storage
from gitops.volume_check import check_volume
from reconcile.runtime.deadline import within

AGAIN_S: Final = 5.0
LOOK_S: Final = 10.0
HUNG_S: Final = 60.0
"""A volume that has not answered for so long may never answer those who wait for it."""

log = structlog.get_logger(__name__)


class SharedContent:
    """The content volume at `root`. Nothing of it is touched before `fit` returns; `look` is what a probe asks. `touch` tries the volume, blocking."""

    def __init__(self, root: Path, clock: Clock, *, touch: Callable[[Path], None] | None = None) -> None:
        self._root = root
        self._clock = clock
        self._touch = touch or write_a_file
        self._watch = ReplicaWatch(ContentVolume(root), clock, name=socket.gethostname())
        self._fit = asyncio.Event()
        self._trouble = "the content volume has not been looked at yet"
        self._looking = threading.Lock()

    async def keep(self) -> None:
        """Find out whether the volume is fit, and be one of those who share it until cancelled. One that cannot be written is looked at again.

        Raises:
            VolumeUnfit: writers could not be kept apart on it.
        """
        while not self._fit.is_set():
            try:
                await anyio.to_thread.run_sync(check_volume, self._root)
            except OSError as error:
                self._trouble = f"the content volume cannot be read or written: {error.strerror or error}"
                log.warning("content.unusable", cause=self._trouble)
                await self._clock.sleep(AGAIN_S)
            else:
                self._fit.set()
        await self._watch.run()

    async def fit(self) -> None:
        """Wait until the volume is known to be fit."""
        await self._fit.wait()

    async def look(self) -> str:
        """Return what is wrong with the volume now, "" for nothing.

        Raises:
            StorageFailed: it takes no file.
        """
        if not self._fit.is_set():
            return self._trouble
        return self._watch.problem or await self._try()

    async def hung(self) -> None:
        """Wait until the volume has not answered for a minute. One that refuses has answered: it may be full, and be emptied by those who work on."""
        await self._fit.wait()
        answered_s = self._clock.monotonic()
        while self._clock.monotonic() - answered_s < HUNG_S:
            await self._clock.sleep(LOOK_S)
            try:
                answer = await within(LOOK_S, self._try(), self._clock)
            except StorageFailed:
                answer = ""
            if answer == "":
                answered_s = self._clock.monotonic()

    async def _try(self) -> str:
        return await anyio.to_thread.run_sync(self._touched, abandon_on_cancel=True)

    def _touched(self) -> str:
        """Try the volume; one that hangs keeps one thread waiting, not one for each look."""
        if not self._looking.acquire(blocking=False):
            return "an earlier look at the content volume has not come back"
        try:
            with storage("write to the content volume"):
                self._touch(self._root)
        finally:
            self._looking.release()
        return ""


def write_a_file(root: Path) -> None:
    """Write a file and remove it."""
    path = root / f".arena-ready-{secrets.token_hex(6)}"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    path.unlink()
