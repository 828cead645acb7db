"""A whole installation is killed at each crash point, started again, and comes to what it comes to undisturbed."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.survival.crash_table import TABLE, Row
from tests.survival.doomed import Doomed
from tests.survival.scenarios import SCENARIOS, Outcome, new_scene

ROOT = Path(__file__).parents[2]
PACKAGES = ("foundation", "gitops", "engine", "reconcile", "hooks", "arena")
DEATHS_A_SCENARIO = 6
_CALL = re.compile(r'\bcrash_point\((?:f?"([^"]*)"|([^)]*))\)')
_STYLE = re.compile(r"[a-z]+\.[a-z]+(_[a-z]+)*")


@pytest.fixture(scope="session")
def undisturbed() -> dict[str, Outcome]:
    """Return the outcomes of scenarios in which nothing died, filled as they are asked for."""
    return {}


def strides() -> Iterator[tuple[Row, ...]]:
    """Yield the table's rows a few at a time, in the order in which a scenario passes them, none beside its neighbour."""
    for scenario in SCENARIOS:
        rows = [row for row in TABLE if row.scenario == scenario]
        groups = -(-len(rows) // DEATHS_A_SCENARIO)
        yield from (tuple(rows[start::groups]) for start in range(groups))


@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.parametrize("rows", list(strides()), ids=lambda rows: f"{rows[0].scenario}:{','.join(row.spec for row in rows)}")
def test_a_death_here_loses_and_doubles_nothing(rows: Sequence[Row], doomed: Doomed, undisturbed: dict[str, Outcome], tmp_path: Path) -> None:
    """Killed here and started again, what was begun ends as if nothing had died: same lines, sums and status, each item once, nothing half done left."""
    scenario = SCENARIOS[rows[0].scenario]
    if rows[0].scenario not in undisturbed:
        undisturbed[rows[0].scenario] = scenario(new_scene(doomed, tmp_path))
    scene = new_scene(doomed, tmp_path)
    doomed.arm(*(row.spec for row in rows))
    try:
        outcome = scenario(scene)
    finally:
        doomed.disarm()
    assert doomed.deaths == [row.point for row in rows], "the scenario did not come to each crash point"
    assert outcome.facts == undisturbed[rows[0].scenario].facts
    assert any(row.again for row in rows) or outcome.again <= 0, f"{outcome.again} items ran again, although no worker died with them"
    doomed.until(lambda: not doomed.unsound(scene.namespace), f"nothing half done to be left: {doomed.unsound(scene.namespace)}")


def points_in_code() -> dict[str, str]:
    """Return every crash point of the program, with the file that has it."""
    found = {}
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if path == ROOT / "foundation" / "crash.py":
            continue
        for name, other in _CALL.findall(path.read_text(encoding="utf-8")):
            found[name or f"not a literal: {other}"] = str(path.relative_to(ROOT))
    return found


def test_every_crash_point_stands_in_the_table() -> None:
    """The table and the code name the same crash points."""
    in_code, in_table = points_in_code(), {row.point for row in TABLE}
    assert sorted(in_code.keys() - in_table) == [], "in the code, not in the table"
    assert sorted(in_table - in_code.keys()) == [], "in the table, not in the code"


def test_names_are_of_one_style() -> None:
    """A crash point is `subject.what_has_happened`."""
    assert [name for name in points_in_code() if not _STYLE.fullmatch(name)] == []
