"""What admission checks of a job's spec beyond its schema."""

from typing import Any

import pytest

from reconcile.kinds.job_checks import (
    duration_problems,
    entry_problems,
    glob_problems,
    path_problems,
    schedule_problems,
    threshold_problems,
    unsafe_path,
)

PROVIDER = {"providerRef": {"name": "p"}}
AGENT = {"agentRef": {"name": "a"}}


@pytest.mark.parametrize(
    ("providers", "words"),
    [
        pytest.param(None, [], id="no providers"),
        pytest.param({}, [], id="no groups"),
        pytest.param({"default": [PROVIDER, AGENT], "judge": {"main": PROVIDER}}, [], id="both shapes"),
        pytest.param({"default": []}, [], id="an empty group"),
        pytest.param([PROVIDER], ["must be a map"], id="a list instead of groups"),
        pytest.param({"default": "gpt4"}, ["group default must be a list"], id="a string for a group"),
        pytest.param({"default": None}, ["group default must be a list"], id="nothing for a group"),
        pytest.param({"default": ["gpt4"]}, ["default[0] sets neither"], id="a string for an entry"),
        pytest.param({"default": [PROVIDER, {**PROVIDER, **AGENT}]}, ["default[1] sets both"], id="both references"),
        pytest.param({"judge": {"main": {}}}, ["judge.main sets neither"], id="neither reference, in a map"),
        pytest.param({"default": [{"providerRef": None, **AGENT}]}, [], id="a null is not set"),
        pytest.param({"default": [{**PROVIDER, "weight": 1}]}, ["unknown key 'weight'"], id="an unknown key"),
        pytest.param({"default": [{"providerRef": {}}]}, ["default[0]: providerRef must give a name"], id="no name"),
        pytest.param({"default": [{"providerRef": "p"}]}, ["default[0]: providerRef must give a name"], id="a string for a reference"),
        pytest.param(
            {"default": [{"agentRef": {"name": "a", "namespace": "n"}}]}, ["agentRef must give a name and nothing else"], id="an agent elsewhere"
        ),
        pytest.param({"default": [{"providerRef": {"name": "p", "namespace": "arena"}}]}, [], id="the own namespace"),
        pytest.param({"default": [{"providerRef": {"name": "p", "namespace": "b"}}]}, ["namespace 'b'"], id="another namespace"),
        pytest.param({"a": [{}], "b": {"k": {}}}, ["a[0] sets neither", "b.k sets neither"], id="every bad entry is named"),
    ],
)
def test_provider_entries(providers: Any, words: list[str]) -> None:
    """An entry sets exactly one reference, by name; the message names the group and the entry's place or key."""
    found = entry_problems({"providers": providers}, "arena")
    assert len(found) == len(words)
    assert all(word in problem.message for word, problem in zip(words, found, strict=True))


def test_another_namespace_needs_a_namespace_to_compare() -> None:
    """Without the job's namespace nothing is said of a Provider's."""
    assert entry_problems({"providers": {"a": [{"providerRef": {"name": "p", "namespace": "b"}}]}}) == []


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("config.arena.yaml", ""),
        ("deep/er/config.arena.yaml", ""),
        (".hidden/..config", ""),
        ("./config.arena.yaml", ""),
        ("../config.arena.yaml", "climbs out"),
        ("a/../../b", "climbs out"),
        ("..", "climbs out"),
        ("/etc/passwd", "absolute"),
        ("~/x", "absolute"),
        ("a\\b", "backslash"),
        ("a\nb", "control"),
        ("a/", "no file"),
        (".", "no file"),
        ("", "no file"),
    ],
)
def test_paths(path: str, word: str) -> None:
    """A path stays within the repository and names a file."""
    assert word in unsafe_path(path)
    assert bool(unsafe_path(path)) == bool(word)
    assert bool(path_problems({"arenaFile": path})) == bool(word)


def test_globs_are_named_by_place() -> None:
    """Each unreadable glob is named; a scenario pattern is read as the engine reads it."""
    spec = {"scenarios": {"include": ["ok", "[a"], "exclude": ["**/x"]}, "onPush": {"paths": ["prompts/**", "[b"], "branches": ["[c"]}}
    assert [problem.path for problem in glob_problems(spec)] == [
        "spec.scenarios.include[1]",
        "spec.scenarios.exclude[0]",
        "spec.onPush.paths[1]",
        "spec.onPush.branches[0]",
    ]
    assert all(problem.message.rpartition(": ")[2] for problem in glob_problems(spec))


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        pytest.param({"loadTest": {"duration": "10m", "rate": 2, "ramp": {"up": "0s", "down": "30s"}}}, [], id="all good"),
        pytest.param({"loadTest": {"duration": "0s"}}, ["spec.loadTest.duration"], id="no time at all"),
        pytest.param({"loadTest": {"duration": "10"}}, ["spec.loadTest.duration"], id="no unit"),
        pytest.param({"loadTest": {"ramp": {"up": "-1s", "down": "soon"}}}, ["spec.loadTest.ramp.up", "spec.loadTest.ramp.down"], id="bad ramps"),
        pytest.param({"loadTest": {"rate": 2}}, ["spec.loadTest.rate"], id="a rate alone"),
        pytest.param({"itemTimeout": "0s", "deadline": "0h"}, ["spec.itemTimeout", "spec.deadline"], id="limits that nothing can meet"),
    ],
)
def test_durations(spec: dict[str, Any], paths: list[str]) -> None:
    """Lengths of time can be read and are above zero; a ramp may be none."""
    assert [problem.path for problem in duration_problems(spec)] == paths


@pytest.mark.parametrize(
    ("metric", "value", "is_good"),
    [
        ("latency_p95", "3s", True),
        ("ttft_avg", "500ms", True),
        ("latency_avg", "3", False),
        ("latency_avg", "-3s", False),
        ("error_rate", "0.01", True),
        ("pass_rate", "1", True),
        ("error_rate", "1.01", False),
        ("arrival_lag", "2%", False),
        ("rate_limit_rate", "-0.1", False),
        ("total_cost", "50.00", True),
        ("total_cost", "$5", False),
        ("total_cost", "5e1", False),
    ],
)
def test_thresholds(metric: str, value: str, is_good: bool) -> None:  # noqa: FBT001 - a column of the table
    """A threshold's value has the form of its metric; what cannot be read is a parse error, and fails the run at its end."""
    found = threshold_problems({"loadTest": {"thresholds": [{"metric": metric, "operator": "<", "value": value}]}})
    assert [(problem.reason, problem.path) for problem in found] == ([] if is_good else [("TestsFailed", "spec.loadTest.thresholds[0].value")])
    assert all("parse error" in problem.message for problem in found)


@pytest.mark.parametrize(
    ("schedule", "paths"),
    [
        pytest.param(None, [], id="no schedule"),
        pytest.param({"cron": "", "timezone": "Mars/Olympus"}, [], id="an empty cron is no schedule"),
        pytest.param({"cron": "*/5 0-6 1,15 * MON-FRI", "timezone": "America/New_York"}, [], id="five fields"),
        pytest.param({"cron": "61 2 * * *"}, ["cron"], id="no such minute"),
        pytest.param({"cron": "0 0 2 * * *"}, ["cron"], id="six fields"),
        pytest.param({"cron": "@daily"}, ["cron"], id="a macro"),
        pytest.param({"cron": "   "}, ["cron"], id="blanks"),
        pytest.param({"cron": "0 0 30 2 *"}, ["cron"], id="never due"),
        pytest.param({"cron": "0 2 * * *", "timezone": "../etc/passwd"}, ["timezone"], id="a path for a time zone"),
        pytest.param({"cron": "x", "timezone": "Nowhere"}, ["cron", "timezone"], id="both"),
    ],
)
def test_schedules(schedule: Any, paths: list[str]) -> None:
    """A schedule has five fields that come due, and a known time zone."""
    assert [problem.path for problem in schedule_problems({"schedule": schedule})] == [f"spec.schedule.{path}" for path in paths]
