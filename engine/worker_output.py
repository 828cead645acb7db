"""Where a worker's result lines go: parts of its own, or nowhere when the directory fails.

Accounting never waits for a directory: after a failure the worker goes on in a new part, and then without files, asking again from time to time.
Blocking; one thread at a time. Must not know the queue.
"""

from collections.abc import Sequence
from pathlib import Path

import structlog

from engine.errors import OutputUnavailable
from engine.records import PlacedLine
from engine.results.parts import MAX_LINE_BYTES, PARTS, SUFFIX, PartWriter
from foundation.clock import Clock

ASK_AGAIN_S = 30.0
"""How long a directory that has failed twice is left alone."""

_log = structlog.get_logger(__name__)


class LineOutput:
    """Write lines into `<directory>/parts/<incarnation>[-N].jsonl`; `directory` None means that there is nowhere to write."""

    def __init__(self, directory: Path | None, incarnation: str, clock: Clock) -> None:
        self._directory = directory
        self._incarnation = incarnation
        self._clock = clock
        self._writer: PartWriter | None = None
        self._parts = 0
        self._not_before_s = 0.0

    def write(self, lines: Sequence[bytes]) -> list[PlacedLine | None]:
        """Write and sync `lines` (one sync for all); return where each lies, None for a line that was not kept. Never raises for a failing directory."""
        places: list[PlacedLine | None] = [None] * len(lines)
        if self._directory is None or self._clock.monotonic() < self._not_before_s:
            return places
        short = [at for at, line in enumerate(lines) if len(line) <= MAX_LINE_BYTES]
        for _ in range(2):  # in the part that is open, then in a new one
            try:
                kept = self._append([lines[at] for at in short])
            except OutputUnavailable as error:
                _log.warning("result_part_failed", incarnation=self._incarnation, cause=error.message)
                self.close()
                continue
            for at, place in zip(short, kept, strict=True):
                places[at] = place
            return places
        self._not_before_s = self._clock.monotonic() + ASK_AGAIN_S
        return places

    def close(self) -> None:
        """Close the part that is open. Idempotent; a later write opens a new one."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _append(self, lines: Sequence[bytes]) -> list[PlacedLine]:
        if self._writer is None:
            self._writer = self._open_part()
        places = self._writer.append(lines)
        self._writer.sync()
        return places

    def _open_part(self) -> PartWriter:
        if self._directory is None or not self._directory.is_dir():
            raise OutputUnavailable(f"cannot write results to '{self._directory}': it is not a directory")
        tail = f"-{self._parts}" if self._parts else ""
        self._parts += 1
        return PartWriter(self._directory / PARTS / f"{self._incarnation}{tail}{SUFFIX}")
