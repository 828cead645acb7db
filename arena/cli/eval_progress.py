"""One line while `arena eval` runs, rewritten in place: real models take minutes, and silence looks like a program that hangs."""

import asyncio
import shutil
from collections.abc import Mapping
from typing import TextIO

from arena.cli.screen import bar, printable
from arena.cli.stopping import run_until_stopped
from arena.evaluation import Evaluation
from engine.results.verdicts import Counts

_PERIOD_S = 1.0
_MINUTE = 60


class _Line:
    """The line on a terminal, written again once a period until it is removed."""

    def __init__(self, evaluation: Evaluation, stream: TextIO, period_s: float) -> None:
        self._evaluation = evaluation
        self._stream = stream
        self._period_s = period_s
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._next = self._loop.call_later(period_s, self._show)

    def remove(self) -> None:
        self._next.cancel()
        self._write("")

    def _show(self) -> None:
        evaluation, columns = self._evaluation, shutil.get_terminal_size().columns
        line = progress_line(evaluation.results.counts, len(evaluation.plan.items), self._loop.time() - self._began, evaluation.troubles)
        self._write(line[: columns - 1])  # a line that wraps could not be rewritten
        self._next = self._loop.call_later(self._period_s, self._show)

    def _write(self, text: str) -> None:
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()


async def run_with_progress(evaluation: Evaluation, stream: TextIO, *, period_s: float = _PERIOD_S) -> None:
    """Run an evaluation until it ends or is stopped; where `stream` is a terminal, show once a period how far it is, and leave nothing of that behind."""
    line = _Line(evaluation, stream, period_s) if stream.isatty() else None
    try:
        await run_until_stopped(evaluation.run())
    finally:
        if line is not None:
            line.remove()


def progress_line(counts: Counts, total: int, elapsed_s: float, troubles: Mapping[str, str]) -> str:
    """Return the line: a bar, items that have ended and all, what did not pass, the time since the beginning, and why models are asked again."""
    parts = [f"  {bar(counts.items, total)}  {counts.items}/{total}"]
    parts += [f"{number} {word}" for number, word in ((counts.failed, "failed"), (counts.errors, "errors")) if number]
    parts.append(f"{int(elapsed_s) // _MINUTE:02d}:{int(elapsed_s) % _MINUTE:02d}")
    return "  ".join([*parts, *(f"{name}: {printable(why)}" for name, why in troubles.items())])
