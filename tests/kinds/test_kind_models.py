"""The models: names on the wire, round trips, and defaults that are the schema's."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import reconcile.kinds as kinds_package
from reconcile.errors import Invalid
from reconcile.kinds import ArenaJob, ArenaProject, ArenaRun, Provider, Workspace, admit, provider_groups
from reconcile.kinds.catalog import CATALOG
from reconcile.kinds.names import API_VERSION

MINIMAL: dict[str, dict[str, Any]] = {
    "ArenaProject": {"external": {"url": "https://h/p"}, "snapshots": {}},
    "ArenaJob": {
        "sourceRef": {"name": "src"},
        "loadTest": {},
        "dataGen": {},
        "evaluation": {},
        "schedule": {},
        "onPush": {},
        "baseline": {"ref": "main"},
        "scenarios": {},
        "workers": {"podOverrides": {}},
        "output": {"type": "s3", "s3": {"bucket": "b"}},
    },
    "ArenaRun": {"jobRef": {"name": "j"}, "template": {"sourceRef": {"name": "src"}}},
    "Provider": {"type": "mock"},
    "AgentRuntime": {},
    "ToolRegistry": {
        "handlers": [
            {"name": "h", "type": "http", "tool": {"name": "t", "description": "d", "inputSchema": {}}, "httpConfig": {"endpoint": "http://h"}}
        ]
    },
    "Workspace": {"namespace": {"name": "arena"}},
}


def minimal(kind: str) -> dict[str, Any]:
    """Return the smallest object of a kind, with every optional block empty."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "x"}, "spec": MINIMAL[kind]}


def without_empty(value: Any) -> Any:
    """Drop empty lists and maps: a model shows them, a stored object need not have them."""
    if isinstance(value, dict):
        return {key: kept for key, inner in value.items() if (kept := without_empty(inner)) not in ([], {})}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("kind", CATALOG)
def test_a_models_defaults_are_the_schemas(kind: str) -> None:
    """A model read from an object without defaults shows what the store would have filled in, no more and no less."""
    admitted = admit(kind, minimal(kind), None).object
    shown = CATALOG[kind].model.from_object(minimal(kind)).to_object()
    assert without_empty(shown["spec"]) == without_empty(admitted["spec"])


@pytest.mark.parametrize("kind", CATALOG)
def test_a_round_trip_is_stable(kind: str) -> None:
    """What a model writes is admitted unchanged, and reads as the same model."""
    model = CATALOG[kind].model.from_object(minimal(kind))
    written = model.to_object()
    assert written["kind"] == kind
    assert written["apiVersion"] == API_VERSION
    assert CATALOG[kind].model.from_object(written) == model
    assert admit(kind, written, None).object["spec"] == written["spec"]


def test_names_on_the_wire() -> None:
    """Keys are camelCase, with the abbreviations that the specification spells in capitals."""
    provider = Provider.from_object(
        {**minimal("Provider"), "spec": {"type": "mock", "baseURL": "http://h", "pricing": {"inputCostPer1K": "0.1"}, "theirs": 1}}
    )
    assert provider.spec.base_url == "http://h"
    assert provider.to_object()["spec"]["pricing"] == {"inputCostPer1K": "0.1"}
    assert provider.to_object()["spec"]["theirs"] == 1
    project = ArenaProject.from_object({**minimal("ArenaProject"), "status": {"repositoryURL": "http://g", "newer": 1}})
    assert project.to_object()["status"]["repositoryURL"] == "http://g"
    workspace = Workspace.from_object({**minimal("Workspace"), "status": {"services": [{"name": "g", "sessionURL": "u"}]}})
    assert workspace.status.services[0].session_url == "u"


def test_times_are_utc() -> None:
    """A time is written in UTC, to the second, and read from any offset."""
    run = ArenaRun.from_object({**minimal("ArenaRun"), "status": {"phase": "Running", "startTime": "2026-01-01T02:00:00+02:00"}})
    assert run.status.start_time == datetime(2026, 1, 1, tzinfo=UTC)
    assert run.to_object()["status"]["startTime"] == "2026-01-01T00:00:00Z"
    assert not run.status.is_terminal


def test_a_models_words() -> None:
    """What a controller asks of a job is read once, here."""
    job = ArenaJob.from_object({**minimal("ArenaJob"), "spec": {"sourceRef": {"name": "s"}}}).spec
    assert (job.confidence, job.min_pass_rate, job.ttl_seconds, job.item_timeout_s, job.retry_backoff_s) == (0.95, None, 3600, 600.0, 1.0)
    assert (job.deadline_after, job.cron) == (None, "")
    spec = {
        "sourceRef": {"name": "s"},
        "deadline": "1h",
        "ttlSecondsAfterFinished": 0,
        "evaluation": {"minPassRate": 0.9},
        "schedule": {"cron": "* * * * *"},
    }
    job = ArenaJob.from_object({**minimal("ArenaJob"), "spec": spec}).spec
    assert (job.deadline_after, job.ttl_seconds, job.min_pass_rate, job.cron) == (timedelta(hours=1), 0, 0.9, "* * * * *")
    project = ArenaProject.from_object(minimal("ArenaProject")).spec
    assert (project.repository_kind, project.snapshots.max_bytes) == ("external", 512 * 2**20)


def test_provider_groups() -> None:
    """A list stays a pool in its order; a map keeps the config's provider ids."""
    groups = provider_groups(
        {"default": [{"providerRef": {"name": "a"}}, {"agentRef": {"name": "b"}}], "judge": {"main": {"providerRef": {"name": "c"}}}}
    )
    pool, judges = groups["default"], groups["judge"]
    assert isinstance(pool, list)
    assert isinstance(judges, dict)
    assert [(entry.provider_ref or entry.agent_ref).name for entry in pool] == ["a", "b"]  # type: ignore[union-attr]
    assert judges["main"].provider_ref is not None
    assert provider_groups(None) == {}


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        pytest.param({**minimal("ArenaJob"), "kind": "ArenaRun"}, "kind", id="another kind"),
        pytest.param({**minimal("ArenaJob"), "spec": {"sourceRef": {"name": "s"}, "trails": 1}}, "spec.trails", id="an unknown field"),
        pytest.param({**minimal("ArenaJob"), "spec": {}}, "spec.sourceRef", id="a missing field"),
    ],
)
def test_an_object_that_does_not_fit(obj: dict[str, Any], path: str) -> None:
    """What was stored past admission is refused as Invalid, with the field."""
    with pytest.raises(Invalid) as refusal:
        ArenaJob.from_object(obj)
    assert [error.path for error in refusal.value.errors] == [path]


def test_every_exported_name_can_be_loaded() -> None:
    """The package's lazy names are all there, and no other is."""
    assert [name for name in kinds_package.__all__ if not hasattr(kinds_package, name)] == []
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kinds_package.nothing
