"""What a person sees while `arena eval` runs."""

import asyncio
import io
import re
from pathlib import Path
from typing import ClassVar

import pytest

from arena.cli.eval_progress import outage_line, progress_line, run_with_progress
from arena.evaluation import Evaluation, EvaluationRequest
from engine.bundle.starter import starter_files
from engine.items import Item, ItemError, ItemResult, Verdict
from engine.results.verdicts import Counts
from foundation.clock import SystemClock


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def evaluation(folder: Path) -> Evaluation:
    """Return an evaluation of the starter bundle: six items."""
    for name, content in starter_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return Evaluation(EvaluationRequest(folder, "config.arena.yaml"))


def test_a_terminal_shows_how_far_it_is_and_keeps_nothing(tmp_path: Path) -> None:
    """The line is rewritten in place, and gone when the results are printed."""
    stream = Terminal()
    with evaluation(tmp_path) as running:
        asyncio.run(run_with_progress(running, stream, period_s=0.0))
        assert running.results.counts.items == 6
    assert "/6  00:00" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_elsewhere_nothing_is_shown(tmp_path: Path) -> None:
    """A log of CI holds results, not how they came."""
    stream = io.StringIO()
    with evaluation(tmp_path) as running:
        asyncio.run(run_with_progress(running, stream, period_s=0.0))
        assert running.results.counts.items == 6
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        pytest.param(Counts(), f"  {'░' * 28}  0/8  01:05", id="nothing yet"),
        pytest.param(Counts(passed=3, skipped=1), f"  {'█' * 14}{'░' * 14}  4/8  01:05", id="all passed so far"),
        pytest.param(Counts(passed=5, failed=1, errors=2), f"  {'█' * 28}  8/8  1 failed  2 errors  01:05", id="what did not pass"),
    ],
)
def test_the_line(counts: Counts, said: str) -> None:
    """It says what has ended, what of that did not pass, and since when it runs."""
    assert progress_line(counts, 8, 65.4, {}) == said


def test_a_log_says_who_does_not_answer() -> None:
    """One line, whatever a server has answered."""
    assert outage_line("gpt", "the provider answered 503:\nbusy") == "gpt: the provider answered 503: busy; asking again"


def test_the_line_says_why_it_takes_so_long() -> None:
    """Two minutes of attempts at a server that is out look like a program that hangs."""
    assert progress_line(Counts(), 8, 5, {"gpt": "the provider answered 503:\nbusy"}).endswith("  0/8  00:05  gpt: the provider answered 503: busy")


class LongWish:
    """A runner whose every item may be tried again after ten minutes."""

    troubles: ClassVar[dict[str, str]] = {}

    async def run(self, item: Item, *, attempt: int = 1) -> ItemResult:
        """Be refused."""
        now, error = SystemClock().now(), ItemError("provider.rate_limit", "the provider answered 429: later")
        return ItemResult(item, Verdict.ERROR, now, now, attempt=attempt, error=error, retryable=True, retry_after_s=600.0)

    async def close(self) -> None:
        """Nothing is open."""


async def test_an_item_that_waits_to_be_tried_again_is_a_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wish that is longer than a request's patience keeps an evaluation up too: who looks hears of it while it lasts, and no longer."""
    monkeypatch.setattr("arena.evaluation.ItemRunner", lambda *_: LongWish())
    with evaluation(tmp_path) as running:
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            work = group.create_task(running.run())
            while len(running.troubles) < 2:  # noqa: ASYNC110 - both tasks of this loop get there by themselves
                await asyncio.sleep(0)
            said = dict(running.troubles)
            work.cancel()
        assert running.troubles == {}
    assert sorted(said) == ["brisk", "steady"]
    assert re.fullmatch(r"the provider answered 429: later \(its item waits 6\d\d s\)", said["brisk"])
