"""What a spec may say and nothing carries out yet."""

from collections.abc import Callable
from typing import Any

import pytest

from reconcile.kinds.admission import admit
from reconcile.kinds.catalog import CATALOG
from reconcile.kinds.names import API_VERSION
from reconcile.kinds.not_supported import TABLE, unsupported_fields
from reconcile.kinds.schema import PRESERVE, schema_of

JOB = {"sourceRef": {"name": "src"}}
VOLUME = {"extraVolumes": [{"name": "v", "emptyDir": {}}]}
PRINTED = """\
ArenaProject spec.external.commitStatus
ArenaProject spec.deploy.allowedRefs
ArenaJob spec.type (loadtest and datagen)
ArenaJob spec.loadTest
ArenaJob spec.dataGen
ArenaJob spec.schedule.cron
ArenaJob spec.output
ArenaJob spec.workers.podOverrides.extraVolumes
ArenaJob spec.workers.podOverrides.extraVolumeMounts
ArenaJob spec.serviceGroup
ArenaJob spec.sessionRecording (true)
ArenaJob spec.baseline
ArenaJob spec.reuse (Unchanged)
ArenaJob spec.budgetCurrency (other than USD)
Workspace spec.quotas
Workspace spec.services
"""


def test_the_table() -> None:
    """This is what is not built. A later part removes its lines here and in the table; no line ever comes back."""
    printed = "".join(f"{line.kind} {line.path}{f' ({line.what})' if line.what else ''}\n" for line in TABLE)
    print(printed)  # noqa: T201 - the table is read with `pytest -s`
    assert printed == PRINTED


@pytest.mark.parametrize(
    ("kind", "spec", "fields"),
    [
        pytest.param("ArenaJob", JOB, [], id="a minimal job"),
        pytest.param("ArenaJob", {**JOB, "type": "loadtest"}, ["spec.type"], id="a load test"),
        pytest.param("ArenaJob", {**JOB, "type": "datagen", "dataGen": {"count": 7}}, ["spec.type", "spec.dataGen"], id="data generation"),
        pytest.param("ArenaJob", {**JOB, "loadTest": {"concurrency": 1, "thresholds": []}}, [], id="a block of defaults is not set"),
        pytest.param("ArenaJob", {**JOB, "loadTest": {"concurrency": 2}}, ["spec.loadTest"], id="a block with one decision is set"),
        pytest.param("ArenaJob", {**JOB, "schedule": {"cron": ""}}, [], id="an empty cron is no schedule"),
        pytest.param("ArenaJob", {**JOB, "schedule": {"timezone": "Europe/Berlin"}}, [], id="a time zone alone is no schedule"),
        pytest.param("ArenaJob", {**JOB, "schedule": {"cron": "0 2 * * *"}}, ["spec.schedule.cron"], id="a schedule"),
        pytest.param("ArenaJob", {**JOB, "toolRegistries": [{"name": "t"}]}, [], id="a tool registry"),
        pytest.param("ArenaJob", {**JOB, "output": {"type": "pvc", "pvc": {"claimName": "c"}}}, ["spec.output"], id="an output"),
        pytest.param("ArenaJob", {**JOB, "workers": {"replicas": 4, "concurrency": 2}}, [], id="workers are supported"),
        pytest.param("ArenaJob", {**JOB, "workers": {"podOverrides": {"extraEnv": [{"name": "A"}], "extraVolumes": []}}}, [], id="variables"),
        pytest.param("ArenaJob", {**JOB, "workers": {"podOverrides": VOLUME}}, ["spec.workers.podOverrides.extraVolumes"], id="a volume"),
        pytest.param("ArenaJob", {**JOB, "serviceGroup": "default"}, ["spec.serviceGroup"], id="a service group"),
        pytest.param("ArenaJob", {**JOB, "sessionRecording": False}, [], id="no session recording"),
        pytest.param("ArenaJob", {**JOB, "sessionRecording": True}, ["spec.sessionRecording"], id="session recording"),
        pytest.param("ArenaJob", {**JOB, "baseline": {"ref": "main"}}, ["spec.baseline"], id="a baseline"),
        pytest.param("ArenaJob", {**JOB, "reuse": "Never"}, [], id="reuse is Never by default"),
        pytest.param("ArenaJob", {**JOB, "reuse": "Unchanged"}, ["spec.reuse"], id="reuse"),
        pytest.param("ArenaJob", {**JOB, "budgetLimit": "5", "budgetCurrency": "USD"}, [], id="a budget in USD"),
        pytest.param("ArenaJob", {**JOB, "budgetLimit": "5", "budgetCurrency": "EUR"}, ["spec.budgetCurrency"], id="a budget in EUR"),
        pytest.param("ArenaRun", {"template": {**JOB, "type": "datagen"}}, ["spec.template.type"], id="a run's template"),
        pytest.param("ArenaProject", {"hosted": {"seed": {"configMap": {"name": "s"}}}, "deploy": {}}, [], id="a hosted project"),
        pytest.param("ArenaProject", {"external": {"url": "https://h/p"}}, [], id="an external project"),
        pytest.param("ArenaProject", {"hosted": {}, "deploy": {"allowedRefs": ["main"]}}, ["spec.deploy.allowedRefs"], id="a deploy limit"),
        pytest.param("Workspace", {"namespace": {"name": "a"}, "services": []}, [], id="a plain workspace"),
        pytest.param(
            "Workspace",
            {"namespace": {"name": "a"}, "services": [{"name": "g"}], "quotas": {"arena": {"maxConcurrentJobs": 0}}},
            ["spec.quotas", "spec.services"],
            id="a workspace with quotas and services",
        ),
        pytest.param("Provider", {"type": "mock"}, [], id="a kind without a line"),
    ],
)
def test_unsupported_fields(kind: str, spec: dict[str, Any], fields: list[str]) -> None:
    """A field counts when someone decided it: a default and an empty value do not."""
    assert unsupported_fields(kind, spec) == fields


@pytest.mark.parametrize(("kind", "wrap"), [("ArenaJob", lambda spec: spec), ("ArenaRun", lambda spec: {"template": spec})])
def test_what_only_pods_can_have(kind: str, wrap: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Where workers are pods all podOverrides are carried out, and nobody is warned of them."""
    spec = wrap({**JOB, "workers": {"podOverrides": VOLUME}})
    assert unsupported_fields(kind, spec, in_cluster=True) == []
    assert unsupported_fields(kind, spec) != []


def test_a_cluster_warns_of_no_pod_overrides() -> None:
    """Admission says what has no effect where it is asked."""
    job = {
        "apiVersion": API_VERSION,
        "kind": "ArenaJob",
        "metadata": {"name": "x"},
        "spec": {**JOB, "workers": {"podOverrides": VOLUME}},
    }
    assert admit("ArenaJob", job, None, in_cluster=True).warnings == []
    assert admit("ArenaJob", job, None).warnings == ["spec.workers.podOverrides.extraVolumes is not supported yet (NotSupported)"]


@pytest.mark.parametrize("kind", ["ArenaJob", "ArenaProject", "Workspace"])
def test_defaulting_sets_nothing_unsupported(kind: str) -> None:
    """What the store fills in is never reported: a minimal object stays supported."""
    minimal = {"ArenaJob": JOB, "ArenaProject": {"hosted": {}}, "Workspace": {"namespace": {"name": "a"}}}[kind]
    admitted = admit(kind, {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "x"}, "spec": minimal}, None)
    assert unsupported_fields(kind, admitted.object["spec"]) == []
    assert admitted.warnings == []


def test_a_writer_is_warned() -> None:
    """An object that sets such a field is taken, with a warning that names it."""
    job = {"apiVersion": API_VERSION, "kind": "ArenaJob", "metadata": {"name": "x"}, "spec": {**JOB, "reuse": "Unchanged"}}
    assert admit("ArenaJob", job, None).warnings == ["spec.reuse is not supported yet (NotSupported)"]


@pytest.mark.parametrize("line", TABLE, ids=lambda line: f"{line.kind} {line.path}")
def test_a_line_names_a_field_of_its_kind(line: Any) -> None:
    """No line outlives its field: each path is in the schema, or below what the schema leaves open."""
    assert line.kind in CATALOG
    node: dict[str, Any] = schema_of(line.kind)
    for step in line.path.split("."):
        if node.get(PRESERVE) and step not in node.get("properties", {}):
            break
        node = node["properties"][step]
