"""What a person sees while `arena eval` runs: real models take minutes, and silence looks like a program that hangs.

A terminal has one line, rewritten in place; elsewhere only a provider that does not answer is worth a line.
"""

import asyncio
import shutil
from collections.abc import Mapping
from typing import TextIO

from arena.cli.screen import bar, printable
from arena.cli.stopping import run_until_stopped
from arena.evaluation import Evaluation
from engine.outages import Outages
from engine.results.verdicts import Counts

_PERIOD_S = 1.0
_MINUTE = 60


class _Line:
    """The line on a terminal, written again once a period until it is removed."""

    def __init__(self, evaluation: Evaluation, stream: TextIO) -> None:
        self._evaluation = evaluation
        self._stream = stream

    def show(self, elapsed_s: float) -> None:
        evaluation, columns = self._evaluation, shutil.get_terminal_size().columns
        line = progress_line(evaluation.results.counts, len(evaluation.plan.items), elapsed_s, evaluation.troubles)
        self._write(line[: columns - 1])  # a line that wraps could not be rewritten

    def remove(self) -> None:
        self._write("")

    def _write(self, text: str) -> None:
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()


class _Log:
    """Lines about outages in a log, which keeps them all."""

    def __init__(self, evaluation: Evaluation, stream: TextIO) -> None:
        self._evaluation = evaluation
        self._stream = stream
        self._outages = Outages()

    def show(self, elapsed_s: float) -> None:
        for name, why in self._outages.news(elapsed_s, self._evaluation.troubles):
            self._stream.write(f"{outage_line(name, why)}\n")
            self._stream.flush()

    def remove(self) -> None:
        """Leave what was said."""


async def run_with_progress(evaluation: Evaluation, stream: TextIO, *, period_s: float = _PERIOD_S) -> None:
    """Run an evaluation until it ends or is stopped, and look at it once a period.

    Where `stream` is a terminal, it shows how far it is, and nothing of that is left behind; elsewhere it says which provider does not answer.
    """
    shown = _Line(evaluation, stream) if stream.isatty() else _Log(evaluation, stream)
    loop = asyncio.get_running_loop()
    began = loop.time()
    following: asyncio.TimerHandle

    def look() -> None:
        nonlocal following
        shown.show(loop.time() - began)
        following = loop.call_later(period_s, look)

    following = loop.call_later(period_s, look)
    try:
        await run_until_stopped(evaluation.run())
    finally:
        following.cancel()
        shown.remove()


def outage_line(name: str, why: str) -> str:
    """Return what a log is told of a provider that does not answer."""
    return f"{name}: {printable(why)}; asking again"


def progress_line(counts: Counts, total: int, elapsed_s: float, troubles: Mapping[str, str]) -> str:
    """Return the line: a bar, items that have ended and all, what did not pass, the time since the beginning, and why models are asked again."""
    parts = [f"  {bar(counts.items, total)}  {counts.items}/{total}"]
    parts += [f"{number} {word}" for number, word in ((counts.failed, "failed"), (counts.errors, "errors")) if number]
    parts.append(f"{int(elapsed_s) // _MINUTE:02d}:{int(elapsed_s) % _MINUTE:02d}")
    return "  ".join([*parts, *(f"{name}: {printable(why)}" for name, why in troubles.items())])
