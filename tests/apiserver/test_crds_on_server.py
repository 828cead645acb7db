"""Our CustomResourceDefinitions on a real API server: taken without a word, and saying what the kinds say."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.port import ARENA_RUN, KINDS, Object
from reconcile.errors import Invalid
from reconcile.kinds.catalog import CATALOG
from reconcile.kinds.columns import PRINTER_COLUMNS
from reconcile.kinds.crds import crd
from reconcile.kinds.names import API_VERSION
from reconcile.kinds.schema import schema_of
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.server_fixture import REAL, clear
from tests.kinds.manifest_cases import CASES, Case, manifest, selected, value_at
from tests.kinds.rule_examples import EXAMPLES, RUN, STATUS_FIELDS, an_object

pytestmark = REAL
KIND = pytest.mark.parametrize("kind", CATALOG)
KUBECTL = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on PATH")
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@KIND
def test_established_without_a_warning(control_plane: ControlPlane, kind: str) -> None:
    """A CRD is established, structural and within the limits of CEL, and neither the server nor a second apply finds anything to say."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd(kind)['metadata']['name']}"
    conditions = {condition["type"]: condition["status"] for condition in control_plane.json(path)["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    query = "?fieldManager=test&force=true&dryRun=All&fieldValidation=Strict"
    with control_plane.ask("PATCH", path + query, crd(kind), **{"Content-Type": "application/apply-patch+yaml"}) as answer:
        assert answer.headers.get_all("Warning") is None


@pytest.mark.parametrize("case", selected("accept", "schema", "admission", "job", "run"))
async def test_manifests_of_the_corpus(cluster: KubeCluster, case: Case) -> None:
    """Where no webhook runs, the schema alone refuses what it must, naming the field, and takes the rest with its defaults."""
    obj, write = manifest(case, case["spec"]), cluster.create
    if "from" in case:
        old = await cluster.create(manifest(case, case["from"]))
        obj, write = {**old, "spec": case["spec"]}, cluster.update
    if case["verdict"] == "schema":
        with pytest.raises(Invalid) as refusal:
            await write(obj, dry_run=True)
        assert case["field"] in [error.path for error in refusal.value.errors]
        return
    spec = (await write(obj, dry_run=True))["spec"]
    assert {path: value_at(spec, path) for path in case.get("defaults", {})} == case.get("defaults", {})


async def put(cluster: KubeCluster, kind: str, example: Any) -> None:
    """Try to create an example, or to update it when it is a pair."""
    await clear(cluster)
    old, new = example if isinstance(example, tuple) else (None, example)
    if old is None:
        await cluster.create(on_server(kind, new), dry_run=True)
        return
    stored = await cluster.create(on_server(kind, old))
    await cluster.update({**stored, "spec": new}, dry_run=True)


def on_server(kind: str, spec: dict[str, Any]) -> Object:
    """Return an example as an object of a namespace."""
    obj = an_object(kind, spec)
    return {**obj, "metadata": {**obj["metadata"], **({"namespace": "arena"} if KINDS[kind].namespaced else {})}}


@pytest.mark.parametrize(("kind", "words", "good", "bad"), [pytest.param(*e, id=f"{e[0]}: {e[1]}") for e in EXAMPLES])
async def test_a_rule_in_cel(cluster: KubeCluster, kind: str, words: str, good: Any, bad: Any) -> None:
    """What a predicate takes and refuses in local mode, CEL takes and refuses with the same message."""
    await put(cluster, kind, good)
    with pytest.raises(Invalid, match=words):
        await put(cluster, kind, bad)


@pytest.mark.parametrize("field", STATUS_FIELDS)
async def test_what_a_run_pins_is_set_once(cluster: KubeCluster, field: str) -> None:
    """Source, queue, plan and workers of a run can be set and repeated, but neither changed nor dropped."""
    await cluster.create(on_server("ArenaRun", RUN))
    first, other = STATUS_FIELDS[field]
    await cluster.patch_status(ARENA_RUN, "arena", "x", {field: first})
    await cluster.patch_status(ARENA_RUN, "arena", "x", {field: first, "phase": "Running"})
    for status in ({field: other}, {field: None}, None):
        with pytest.raises(Invalid, match=rf"status\.{field} is set once"):
            await cluster.patch_status(ARENA_RUN, "arena", "x", status)  # type: ignore[arg-type]


@KUBECTL
@pytest.mark.parametrize("options", [pytest.param((), id="client side"), pytest.param(("--server-side",), id="server side")])
async def test_applying_twice_changes_nothing(cluster: KubeCluster, control_plane: ControlPlane, options: tuple[str, ...]) -> None:
    """The second `kubectl apply` of every manifest of the corpus finds nothing to change and writes nothing."""
    manifests = [manifest(case, case["spec"]) for case in CASES if case["verdict"] in ("accept", "run", "job") and "from" not in case]
    if not manifests:
        pytest.skip("no corpus")
    text = yaml.safe_dump_all([{**obj, "metadata": {**obj["metadata"], "name": f"x{place}"}} for place, obj in enumerate(manifests)])
    first = control_plane.kubectl("apply", *options, "-f", "-", text=text)
    assert (first.returncode, first.stderr) == (0, "")
    before = [(await cluster.list(KINDS[kind])).items for kind in CATALOG]
    second = control_plane.kubectl("apply", *options, "-f", "-", text=text)
    assert (second.returncode, second.stderr) == (0, "")
    said = {line.rpartition(" ")[2] for line in second.stdout.splitlines()}
    assert said == {"serverside-applied" if options else "unchanged"}
    assert [(await cluster.list(KINDS[kind])).items for kind in CATALOG] == before


@KUBECTL
@pytest.mark.parametrize("options", [pytest.param((), id="client side"), pytest.param(("--server-side", "--force-conflicts"), id="server side")])
def test_applying_the_crds_twice_changes_nothing(control_plane: ControlPlane, options: tuple[str, ...]) -> None:
    """The files of manifests/crds are taken by `kubectl apply`, and the second time nothing changes and nothing is warned of."""
    files = [path for path in sorted((Path(__file__).parents[2] / "manifests/crds").rglob("*.yaml")) if path.name != "kustomization.yaml"]
    command = ("apply", *options, *(f"--filename={path}" for path in files))
    assert control_plane.kubectl(*command).returncode == 0
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    before = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in control_plane.json(path)["items"]}
    second = control_plane.kubectl(*command)
    assert (second.returncode, second.stderr) == (0, "")
    assert {line.rpartition(" ")[2] for line in second.stdout.splitlines()} == {"serverside-applied" if options else "unchanged"}
    assert {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in control_plane.json(path)["items"]} == before


def described(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and description of every declared field of a schema."""
    for name, below in schema.get("properties", {}).items():
        yield f"{path}.{name}", below.get("description", "")
        yield from described(below, f"{path}.{name}")
    if "items" in schema:
        yield from described(schema["items"], f"{path}[]")


@KIND
def test_explain_knows_every_field(control_plane: ControlPlane, kind: str) -> None:
    """What `kubectl explain` reads has our description of every field of spec and status."""
    group, _, version = API_VERSION.partition("/")
    document = control_plane.json(f"/openapi/v3/apis/{group}/{version}")
    served = document["components"]["schemas"][f"{'.'.join(reversed(group.split('.')))}.{version}.{kind}"]
    for part in ("spec", "status"):
        assert dict(described(served["properties"][part])) == dict(described(schema_of(kind)["properties"][part]))


@KUBECTL
def test_kubectl_explains(control_plane: ControlPlane) -> None:
    """`kubectl explain` shows the description of a field."""
    told = control_plane.kubectl("explain", "arun.spec.template.budgetLimit")
    budget = schema_of("ArenaJob")["properties"]["spec"]["properties"]["budgetLimit"]["description"]
    assert budget in re.sub(r"\s+", " ", told.stdout)


@KIND
def test_columns(control_plane: ControlPlane, kind: str) -> None:
    """A table has the name, then the columns of the kind in their order, the wide ones marked as such."""
    info = KINDS[kind]
    with control_plane.ask("GET", f"/apis/{API_VERSION}/{info.plural}", Accept=TABLE) as answer:
        columns = json.load(answer)["columnDefinitions"]
    expected = [(column.name, column.type, column.priority) for column in PRINTER_COLUMNS[kind]]
    assert [(column["name"], column["type"], column["priority"]) for column in columns] == [("Name", "string", 0), *expected]


def test_short_names_and_category(control_plane: ControlPlane) -> None:
    """Every kind is found by its short names, and under the category arena."""
    resources = {resource["kind"]: resource for resource in control_plane.json(f"/apis/{API_VERSION}")["resources"] if "/" not in resource["name"]}
    assert {kind: (tuple(found["shortNames"]), found["categories"]) for kind, found in resources.items()} == {
        kind: (info.short_names, ["arena"]) for kind, info in CATALOG.items()
    }
