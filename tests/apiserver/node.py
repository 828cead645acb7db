"""The test kubelet in a thread of its own, so that tests which wait for processes do not keep it waiting."""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.kubelet import PLAIN, Kubelet, Machine
from tests.apiserver.server_fixture import connected

DEADLINE_S = 30.0


class Node:
    """A node that runs the pods of all namespaces; `claims` and `machine` as for `Kubelet`."""

    def __init__(self, plane: ControlPlane, folder: Path, *, claims: Mapping[str, Path], machine: Machine = PLAIN) -> None:
        self.logs = folder / "logs"
        self._plane = plane
        self._folder = folder
        self._claims = claims
        self._machine = machine
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._task: asyncio.Task[None] | None = None
        self._started = threading.Event()

    def start(self) -> None:
        """Start to run pods."""
        self._thread.start()
        assert self._started.wait(DEADLINE_S)

    def stop(self) -> None:
        """End it; its containers are killed."""
        if self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self._run())
        self._started.set()
        try:
            self._loop.run_until_complete(asyncio.wait({self._task}))
        finally:
            self._loop.close()

    async def _run(self) -> None:
        cluster = connected(self._plane)
        try:
            await Kubelet(self._plane, cluster, self._folder, namespaces=None, claims=self._claims, machine=self._machine).run()
        finally:
            await cluster.close()
