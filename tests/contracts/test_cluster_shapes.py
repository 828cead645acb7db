"""The rules that every Cluster adapter keeps for odd shapes: what is refused, and what is taken to mean something else."""

from typing import Any

import pytest

from reconcile.cluster.port import ARENA_JOB, CONFIG_MAP, SECRET, WORKSPACE, Cluster, Object, ResourceKind
from reconcile.errors import Invalid
from tests.contracts.cluster_objects import NS, job, make

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}
SPEC = {"sourceRef": {"name": "src"}}


def secret(**rest: Any) -> Object:
    """Return a Secret."""
    return make(SECRET, "s", **rest)


def config(**rest: Any) -> Object:
    """Return a ConfigMap."""
    return make(CONFIG_MAP, "c", **rest)


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(job("a", metadata={"finalizers": ["x.test/HOLD me"]}), id="a finalizer with a space"),
        pytest.param(job("a", metadata={"ownerReferences": [OWNER | {"color": "red"}]}), id="an unknown field of an owner"),
        pytest.param(
            job("a", metadata={"ownerReferences": [OWNER | {"controller": True}, OWNER | {"uid": "y", "controller": True}]}), id="two controllers"
        ),
        pytest.param(job("a", metadata={"labels": {"a": 1}}), id="a label that is a number"),
        pytest.param(job("a", metadata={"labels": ["a"]}), id="labels that are a list"),
        pytest.param(job("a", metadata={"annotations": {"a": True}}), id="an annotation that is a truth"),
        pytest.param(job("a", metadata={"annotations": {"a/b/c": "x"}}), id="an annotation with two slashes"),
        pytest.param(job("a", metadata={"color": "red"}), id="unknown metadata"),
        pytest.param(job("a", metadata={"resourceVersion": "7"}), id="a version on create"),
        pytest.param({**job("a"), "color": "red"}, id="an unknown field beside spec"),
        pytest.param(job("a", spec=[]), id="a spec that is a list"),
        pytest.param(job("a", spec={**SPEC, "trials": "2"}), id="a number in quotes"),
        pytest.param(job("a", spec={**SPEC, "trials": 10**12}), id="a number beyond int32"),
        pytest.param(job("a", spec={**SPEC, "suspend": "true"}), id="a truth in quotes"),
        pytest.param(job("a", spec={**SPEC, "scenarios": {"include": [None]}}), id="a null in a list"),
        pytest.param(job("a..b"), id="a name with two dots"),
        pytest.param(secret(data={"a": "%%"}), id="data that is no base64"),
        pytest.param(secret(data={"a": "YQ"}), id="base64 without its end"),
        pytest.param(secret(data={"a b": "YQ=="}), id="a key with a space"),
        pytest.param(secret(data={"..a": "YQ=="}), id="a key that begins with two dots"),
        pytest.param(secret(stringData={"a": 1}), id="stringData that is a number"),
        pytest.param(config(data={"a": 1}), id="data that is a number"),
        pytest.param(config(data={"a": "1"}, binaryData={"a": "YQ=="}), id="a key twice"),
        pytest.param(config(immutable="yes"), id="immutable that is a word"),
        pytest.param(config(dta={"a": "1"}), id="an unknown field of a core kind"),
    ],
)
async def test_what_is_refused(cluster: Cluster, obj: Object) -> None:
    """What the server cannot take as it stands is refused, and nothing is stored."""
    with pytest.raises(Invalid):
        await cluster.create(obj)


@pytest.mark.parametrize(
    ("kind", "obj", "path", "expected"),
    [
        pytest.param(ARENA_JOB, job("a", metadata={"labels": {"x": None}}), "metadata.labels", {"x": ""}, id="a null label is empty"),
        pytest.param(CONFIG_MAP, config(data={"x": None}), "data", {"x": ""}, id="a null value is empty"),
        pytest.param(SECRET, secret(data={"x": None}, stringData={"y": None}), "data", {"x": "", "y": ""}, id="a null secret is empty"),
        pytest.param(ARENA_JOB, job("a", spec={**SPEC, "ref": None}), "spec.ref", None, id="a null field is absent"),
        pytest.param(ARENA_JOB, job("a", spec={**SPEC, "type": None}), "spec.type", "evaluation", id="a null field has its default"),
        pytest.param(ARENA_JOB, job("a", spec={**SPEC, "trials": 2.0}), "spec.trials", 2, id="a whole number is one"),
        pytest.param(ARENA_JOB, job("a", metadata={"finalizers": ["hold"]}), "metadata.finalizers", ["hold"], id="a finalizer without a domain"),
        pytest.param(
            WORKSPACE,
            make(WORKSPACE, "w", spec={"namespace": {"name": NS}}, metadata={"namespace": NS}),
            "metadata.namespace",
            None,
            id="a cluster-scoped object has no namespace",
        ),
    ],
)
async def test_what_is_meant(cluster: Cluster, kind: ResourceKind, obj: Object, path: str, expected: object) -> None:
    """What people write, and the server takes to mean something simpler, is stored as that."""
    value: Any = await cluster.create(obj)
    assert await cluster.get(kind, obj["metadata"].get("namespace"), obj["metadata"]["name"]) == value
    for key in path.split("."):
        value = (value or {}).get(key)
    assert value == expected


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"kind": "ArenaRun"}, id="kind"),
        pytest.param({"apiVersion": "v1"}, id="apiVersion"),
        pytest.param({"metadata": {"namespace": "default"}}, id="namespace"),
        pytest.param({"metadata": {"name": None}}, id="no name"),
        pytest.param({"metadata": None}, id="no metadata"),
        pytest.param({"spec": None}, id="no spec"),
        pytest.param([], id="a list"),
    ],
)
async def test_a_patch_that_is_refused(cluster: Cluster, patch: Any) -> None:
    """A patch cannot make another object of an object, or none."""
    stored = await cluster.create(job("a"))
    with pytest.raises(Invalid):
        await cluster.patch(ARENA_JOB, NS, "a", patch)
    assert await cluster.get(ARENA_JOB, NS, "a") == stored


async def test_a_patch_of_what_the_system_owns(cluster: Cluster) -> None:
    """Nulls for what the system owns change nothing."""
    stored = await cluster.create(job("a"))
    assert await cluster.patch(ARENA_JOB, NS, "a", {"metadata": {"uid": None, "creationTimestamp": None, "generation": None}}) == stored


@pytest.mark.parametrize(
    "status",
    [
        pytest.param([], id="a list"),
        pytest.param({"activeCount": "x"}, id="a wrong type"),
        pytest.param({"nextScheduleTime": "soon"}, id="no time"),
        pytest.param({"conditions": [{"status": "True"}]}, id="a condition without a type"),
        pytest.param({"conditions": [{"type": "Ready", "status": "True"}] * 2}, id="a condition twice"),
    ],
)
async def test_a_status_that_is_refused(cluster: Cluster, status: Any) -> None:
    """A status that does not fit its schema is refused."""
    stored = await cluster.create(job("a"))
    with pytest.raises(Invalid):
        await cluster.patch_status(ARENA_JOB, NS, "a", status)
    assert await cluster.get(ARENA_JOB, NS, "a") == stored


async def test_a_status_has_no_defaults(cluster: Cluster) -> None:
    """A status is stored as it was written."""
    await cluster.create(job("a"))
    status = {"conditions": [{"type": "Ready", "status": "True"}], "nextScheduleTime": "2026-01-01T00:00:00.123456Z"}
    assert (await cluster.patch_status(ARENA_JOB, NS, "a", status))["status"] == status


async def test_a_watch_from_a_version_that_is_none(cluster: Cluster) -> None:
    """A resourceVersion that the store cannot have given is refused."""
    with pytest.raises(Invalid):
        await anext(cluster.watch(ARENA_JOB, NS, "abc"))
