"""When a remote is fetched, and what is said of a fetch: pure rules, as tables."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gitops.mirrors import RefChange
from reconcile.project.changes import describe_changes
from reconcile.project.schedule import LONGEST_RETRY_AFTER, SPREAD, Want, is_due, wait_for

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
INTERVAL = timedelta(minutes=5)
QUIET = {"nextFetchTime": "2026-01-01T12:03:00Z", "observedGeneration": 1, "lastHandledSync": "old", "credentialsVersion": "7"}
OLD, NEW = "1" * 40, "2" * 40


@pytest.mark.parametrize(
    ("status", "want", "due"),
    [
        pytest.param({}, {}, False, id="nothing has changed"),
        pytest.param({"nextFetchTime": "2026-01-01T12:00:00Z"}, {}, True, id="it is time"),
        pytest.param({"nextFetchTime": "2026-01-01T11:00:00Z"}, {}, True, id="it was time an hour ago, when nobody ran"),
        pytest.param({"nextFetchTime": None}, {}, True, id="never fetched, or resumed"),
        pytest.param({"nextFetchTime": "2026-01-01T12:50:00Z"}, {}, False, id="a backoff of ten intervals"),
        pytest.param({"nextFetchTime": "2027-01-01T12:00:00Z"}, {}, True, id="planned while the clock was a year ahead"),
        pytest.param({}, {"generation": 2}, True, id="the spec has changed"),
        pytest.param({}, {"request": "new"}, True, id="a request"),
        pytest.param({}, {"request": "old"}, False, id="a request that was answered"),
        pytest.param({}, {"request": ""}, False, id="a request that was taken back"),
        pytest.param({}, {"secret_version": "8"}, True, id="a Secret that has changed"),
        pytest.param({}, {"secret_version": ""}, True, id="a Secret that is gone"),
        pytest.param({"credentialsVersion": ""}, {"secret_version": ""}, False, id="a Secret that was missing and still is"),
        pytest.param({}, {"missing": True}, True, id="a mirror that is not there"),
        pytest.param({"fetchFailure": {"count": 1}}, {"missing": True}, False, id="a mirror that could not be fetched yet"),
    ],
)
def test_when_a_fetch_is_due(status: dict[str, Any], want: dict[str, Any], *, due: bool) -> None:
    """The stored status and the present world decide, never what this process remembers."""
    stored = {key: value for key, value in {**QUIET, **status}.items() if value is not None}
    wanted = Want(**{"generation": 1, "request": "old", "secret_version": "7", "missing": False, **want})
    assert is_due(stored, wanted, INTERVAL, NOW) is due


@pytest.mark.parametrize(
    ("failures", "intervals"),
    [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (1_000_000, 10)],
    ids=str,
)
def test_backoff_doubles_up_to_ten_intervals(failures: int, intervals: int) -> None:
    """After a good fetch and after the first bad one the wait is one interval, then it doubles, and ten are the most, spread included."""
    wait = wait_for(INTERVAL, failures=failures, retry_after_s=None, spread=0.0)
    assert wait == INTERVAL * intervals
    assert wait_for(INTERVAL, failures=failures, retry_after_s=None, spread=SPREAD) == min(
        wait * (1 + SPREAD), INTERVAL * 10 if failures else wait * 2
    )
    assert wait_for(INTERVAL, failures=failures, retry_after_s=None, spread=-SPREAD) == wait * (1 - SPREAD)


@pytest.mark.parametrize(
    ("retry_after_s", "wait"),
    [
        pytest.param(3.0, INTERVAL, id="less than an interval"),
        pytest.param(1200.0, timedelta(minutes=20), id="longer than the backoff"),
        pytest.param(-5.0, INTERVAL, id="in the past"),
        pytest.param(1e12, LONGEST_RETRY_AFTER, id="a millennium"),
    ],
)
def test_what_the_host_asks_for_is_honoured(retry_after_s: float, wait: timedelta) -> None:
    """Retry-After makes a wait longer, never shorter, and an hour is the most."""
    assert wait_for(INTERVAL, failures=1, retry_after_s=retry_after_s, spread=0.0) == wait


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param([], "", id="nothing"),
        pytest.param([RefChange("advanced", "refs/heads/main", OLD, NEW)], "", id="branches that went on"),
        pytest.param([RefChange("forced", "refs/heads/a", OLD, NEW)], "forced: a (111111111111 to 222222222222)", id="a forced branch"),
        pytest.param([RefChange("renamed", "refs/heads/b", OLD, OLD, "refs/heads/a")], "renamed: a to b", id="a renamed branch"),
        pytest.param(
            [RefChange("default-moved", "refs/heads/main", OLD, NEW, "refs/heads/master"), RefChange("deleted", "refs/heads/master", OLD, "")],
            "the default branch is main, was master; deleted: master",
            id="another default branch",
        ),
        pytest.param([RefChange("moved-tag", "refs/tags/v1", OLD, NEW)], "moved tags: tags/v1 (111111111111 to 222222222222)", id="a tag that moved"),
        pytest.param([RefChange("created", f"refs/heads/{n}", "", NEW) for n in range(5000)], "new: 0, 1, 2 and 4997 more", id="5,000 new branches"),
        pytest.param([RefChange("deleted", "refs/heads/\u202ex", OLD, "")], "deleted: \\u202ex", id="a name that would turn the line around"),
        pytest.param([RefChange("created", f"refs/heads/{'x' * 200}", "", NEW)], f"new: {'x' * 59}…", id="a long name"),
    ],
)
def test_changes_are_one_short_sentence(changes: list[RefChange], said: str) -> None:
    """Of each kind the first three names and how many more; that branches went on is no news."""
    assert describe_changes(changes) == said
