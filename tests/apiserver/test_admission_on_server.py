"""Our webhook asked by a real API server: the corpus has its verdicts, in the API server's own words."""

from collections.abc import Iterator
from typing import Any

import pytest

from hooks.admission_review import MAX_CAUSES
from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.port import KINDS
from reconcile.errors import Invalid
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.server_fixture import REAL
from tests.apiserver.webhook import REFUSED, Said, Webhook, a_job, jobs_path, say, serving_webhook
from tests.contracts.cluster_objects import NS
from tests.kinds.manifest_cases import Case, kind_of, manifest, selected, value_at

pytestmark = REAL


@pytest.fixture(scope="module")
def webhook(control_plane: ControlPlane) -> Iterator[Webhook]:
    """Run the webhook for all tests of this module."""
    with serving_webhook(control_plane) as running:
        yield running


def collection(kind: str) -> str:
    """Return the path of the objects of a kind."""
    info = KINDS[kind]
    return f"/apis/{info.api_version}/{f'namespaces/{NS}/' if info.namespaced else ''}{info.plural}"


async def applied(cluster: KubeCluster, plane: ControlPlane, case: Case) -> Said:
    """Try what a case applies, over what it had before."""
    path, obj = collection(kind_of(case)), manifest(case, case["spec"])
    if "from" not in case:
        return say(plane, "POST", f"{path}?dryRun=All&fieldValidation=Strict", obj)
    old = await cluster.create(manifest(case, case["from"]))
    return say(plane, "PUT", f"{path}/x?dryRun=All&fieldValidation=Strict", {**old, "spec": case["spec"]})


@pytest.mark.usefixtures("webhook")
@pytest.mark.parametrize("case", selected("accept", "schema", "admission", "job", "run"))
async def test_verdicts_of_the_corpus(cluster: KubeCluster, control_plane: ControlPlane, case: Case) -> None:
    """With the webhook every manifest has its verdict at once: taken with its defaults, with a warning, or refused by name of the field."""
    said = await applied(cluster, control_plane, case)
    if case["verdict"] in ("schema", "admission"):
        assert said.code in (400, 422)
        assert case.get("field", "") in [*said.fields, ""] or case["field"] in said.message
        assert case["verdict"] == "schema" or case.get("message", "") in said.message
        return
    assert said.code in (200, 201), said.message
    assert {path: value_at(said.body["spec"], path) for path in case.get("defaults", {})} == case.get("defaults", {})
    assert said.warnings or case["verdict"] != "job"


@pytest.mark.usefixtures("webhook")
async def test_a_refusal_is_one_of_the_kinds_own(cluster: KubeCluster) -> None:
    """What the webhook refuses reaches our own client as any other invalid object does: with the field, and its message."""
    with pytest.raises(Invalid) as refusal:
        await cluster.create(a_job(**REFUSED), dry_run=True)
    assert [error.path for error in refusal.value.errors] == ["spec.arenaFile"]


@pytest.mark.usefixtures("webhook")
def test_a_refusal_is_bounded(control_plane: ControlPlane) -> None:
    """Of hundreds of mistakes the first are told, and how many more there are."""
    groups: dict[str, Any] = {"default": {f"p{number}": {} for number in range(60)}}
    said = say(control_plane, "POST", jobs_path(), a_job(providers=groups))
    assert said.code == 422
    assert len(said.fields) == MAX_CAUSES
    assert said.message.endswith(f"and {60 - MAX_CAUSES} more")


@pytest.mark.usefixtures("webhook")
async def test_the_largest_spec_is_compared(cluster: KubeCluster) -> None:
    """A spec of half a megabyte is within what conditions of a webhook may cost, on update too."""
    providers = {"default": [{"providerRef": {"name": f"{number:0>200}"}} for number in range(250)]}
    spec: dict[str, Any] = {"providers": {f"group{number}": providers["default"] for number in range(8)}}
    # A name of its own: the probes of the fixture must stay free to be tried.
    stored = await cluster.create({**a_job(**spec), "metadata": {"name": "large", "namespace": "arena"}})
    changed = await cluster.update({**stored, "spec": {**stored["spec"], "trials": 3}})
    assert changed["spec"]["trials"] == 3
    with pytest.raises(Invalid):
        await cluster.update({**changed, "spec": {**changed["spec"], **REFUSED}})
