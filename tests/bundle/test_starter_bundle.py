"""The starter bundle passes; its second commit fails in one place."""

from pathlib import Path

import pytest

from engine.bundle import check_supported, load_bundle
from engine.bundle.starter import starter_files, starter_regression
from engine.conversation.runner import ItemRunner
from engine.items import Verdict
from engine.plan import PlanRequest, make_plan
from engine.validate import validate_bundle
from foundation.clock import SystemClock


def unpack(root: Path, files: dict[str, bytes]) -> Path:
    """Write the files below `root`."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def test_starter_is_flawless(tmp_path: Path) -> None:
    """Validation has nothing to say of the starter bundle, before and after the second commit."""
    root = unpack(tmp_path, starter_files())
    assert validate_bundle(root) == []
    assert validate_bundle(unpack(root, starter_regression())) == []


def test_the_real_model_is_switched_on_by_one_line(tmp_path: Path) -> None:
    """Nobody is asked by default; with its line in the config, the model is tested beside the mocks, has a price, and validation has nothing to say."""
    root = unpack(tmp_path, starter_files())
    assert "gpt" not in load_bundle(root).providers
    config = root / "config.arena.yaml"
    config.write_text(config.read_text().replace("# - file: providers/gpt", "- file: providers/gpt"))
    assert validate_bundle(root) == []
    bundle = load_bundle(root)
    plan = make_plan(bundle, PlanRequest())
    assert (list(plan.providers), plan.warnings) == (["brisk", "gpt", "steady"], ())


def test_regression_changes_files_of_the_starter() -> None:
    """The second commit only changes files that the first one has."""
    changed = starter_regression()
    assert changed
    assert all(starter_files()[name] != content for name, content in changed.items())


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        pytest.param({}, [], id="the first commit passes"),
        pytest.param(starter_regression(), ["refund-window/brisk/1"], id="the second fails in one item"),
    ],
)
async def test_verdicts(tmp_path: Path, changes: dict[str, bytes], failing: list[str]) -> None:
    """Every item passes but the one whose reply the second commit changed."""
    bundle = load_bundle(unpack(tmp_path, {**starter_files(), **changes}))
    plan = make_plan(bundle, PlanRequest())
    check_supported(bundle, plan)
    runner = ItemRunner(bundle, plan, SystemClock())
    results = [await runner.run(item) for item in plan.items]
    await runner.close()
    assert [result.item.id for result in results if result.verdict is not Verdict.PASS] == failing
