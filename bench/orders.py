"""Deaths to order: one process of an installation dies, or stands still, where it is told to.

Owns the order file of `foundation.crash`. An installation that is started with `environment` asks it at every crash point.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from foundation.crash import HALT, MET_SUFFIX

STEP_S = 0.01


@dataclass(frozen=True, slots=True)
class Met:
    """A process that came to its crash point: it is dead by now, or stands there."""

    point: str
    pid: int


class Orders:
    """The order file of one installation."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "order"
        self._met = folder / f"order{MET_SUFFIX}"

    @property
    def environment(self) -> Mapping[str, str]:
        """Return what arms the processes of an installation."""
        return {"ARENA_CRASH_AT": f"@{self._file}"}

    def give(self, spec: str, *, halt: bool = False) -> None:
        """Let the next process that comes to the crash point die there, or stand still."""
        self._met.unlink(missing_ok=True)
        new = self._file.with_suffix(".new")
        new.write_text(f"{spec} {HALT if halt else ''}".strip(), encoding="ascii")
        new.rename(self._file)

    def withdraw(self) -> None:
        """Let nobody die."""
        self._file.unlink(missing_ok=True)

    def met(self) -> Met | None:
        """Return who came to the point, None while nobody has."""
        try:
            point, pid = self._met.read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return None
        return Met(point, int(pid))

    def wait(self, seconds: float, meanwhile: Callable[[], object] = lambda: None) -> Met | None:
        """Wait until somebody comes to the point, and do `meanwhile` again and again; None, and the order is withdrawn, when nobody does."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if (met := self.met()) is not None:
                return met
            meanwhile()
            time.sleep(STEP_S)
        self.withdraw()
        return None
