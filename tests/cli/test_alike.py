"""Equal errors are told once: what is like what, and what is said of the rest."""

import asyncio
import io
from pathlib import Path

import pytest

from arena.cli.alike import likeness_of, more_like_it, told_once
from arena.cli.eval_table import write_table
from arena.cli.showing import failure_lines
from arena.evaluation import Evaluation, EvaluationRequest
from engine.bundle.starter import starter_files
from engine.items import Item, ItemError, ItemResult, Verdict
from foundation.clock import SystemClock


def test_the_first_stands_for_those_like_it() -> None:
    """Order is kept, each kind is told at its first, and what is like nothing stands alone every time."""
    failures = ["key", "a", "key", "quota", "a", "key"]
    told = list(told_once(lambda: failures, lambda failure: None if failure == "a" else failure))
    assert told == [("key", 2), ("a", 0), ("quota", 0), ("a", 0)]


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        pytest.param(("error", "gpt", ["401"]), ("error", "gpt", ["401"]), True, id="the same words of the same provider"),
        pytest.param(("error", "gpt", ["401"]), ("error", "claude", ["401"]), False, id="another provider"),
        pytest.param(("error", "gpt", ["401"]), ("error", "gpt", ["429"]), False, id="other words"),
    ],
)
def test_likeness(first: tuple[str, str, list[str]], second: tuple[str, str, list[str]], *, alike: bool) -> None:
    """Errors are alike by provider and words."""
    assert (likeness_of(*first) == likeness_of(*second)) is alike


def test_a_failed_check_is_like_no_other() -> None:
    """What a model said wrongly is looked at one by one."""
    assert likeness_of("fail", "gpt", ["content_includes: not found"]) is None
    assert more_like_it(0) == []


class Refused:
    """A runner whose items all end in the error of their provider."""

    async def run(self, item: Item, *, attempt: int = 1) -> ItemResult:
        """Fail."""
        now = SystemClock().now()
        error = ItemError("provider.auth", f"the provider refused the key of '{item.provider}'")
        return ItemResult(item, Verdict.ERROR, now, now, attempt=attempt, error=error)

    async def close(self) -> None:
        """Nothing is open."""


def test_both_screens_tell_an_error_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`arena eval` and `arena show` print one block a provider, with the command of its first item and the number of the others."""
    for name, content in starter_files().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr("arena.evaluation.ItemRunner", lambda *_: Refused())
    printed = io.StringIO()
    with Evaluation(EvaluationRequest(tmp_path, "config.arena.yaml", trials=10)) as evaluation:
        asyncio.run(evaluation.run())
        write_table(evaluation, printed)
        evaluation.results.write_files(tmp_path / "out")
        (tmp_path / "out" / "plan-0.json").write_bytes(evaluation.plan.to_bytes())
    block = [
        "",
        "error  order-status x brisk  trial 1  tone=please",
        "  provider.auth: the provider refused the key of 'brisk'",
        "  arena eval . --scenario order-status --provider brisk",
        "  … and 29 more like this",
    ]
    blocks = [*block, *(line.replace("brisk", "steady") for line in block)]
    assert "\n".join(blocks) in printed.getvalue()
    assert printed.getvalue().count("provider.auth") == 2
    assert list(failure_lines(tmp_path / "out")) == blocks
    assert list(failure_lines(tmp_path / "out", limit=1)) == [*block, "\n  and 30 more"]
