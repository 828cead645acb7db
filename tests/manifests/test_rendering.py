"""What kustomize makes of the manifests: whole, of one mind with the program, and without a secret."""

from importlib.metadata import version
from pathlib import Path

import pytest
import typer.main
import yaml

from arena import settings
from arena.cli import cluster as commands
from hooks.admission import PATH
from hooks.admission_registration import webhook_configuration
from reconcile.kinds.catalog import CATALOG
from reconcile.kinds.crds import crd
from tests.manifests.rendering import COMPONENTS, ENTRIES, MANIFESTS, OVERLAYS, called, containers, of_kind, pod_templates, render, rendered

OURS = {"SHELL", "HOME", "VALKEY_PASSWORD"}
"""Variables that programs other than arena read, or that only the manifest itself refers to."""


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_folder_renders(entry: str) -> None:
    """Every folder that somebody may apply renders, and no object is there twice."""
    names = [called(obj) for obj in rendered(entry)]
    assert names
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_renders_on_the_base(component: str, tmp_path: Path) -> None:
    """Every component fits on the base, in a kustomization of somebody's own."""
    (tmp_path / "manifests").symlink_to(MANIFESTS)
    kustomization = {"resources": ["manifests/base"], "components": [f"manifests/components/{component}"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    base = {called(obj) for obj in rendered("base")}
    assert {called(obj) for obj in render(tmp_path)} > base


def test_crds_are_the_generated_ones() -> None:
    """The overlays bring the CRDs of our kinds as they are generated, and the component `neighbours` the others'."""
    for entry, is_neighbour in (("crds/arena", False), ("crds/neighbours", True)):
        expected = [crd(kind) for kind, info in CATALOG.items() if info.is_neighbour is is_neighbour]
        assert sorted(rendered(entry), key=called) == sorted(expected, key=called)
    ours = {called(obj) for obj in rendered("crds/arena")}
    assert all(ours <= {called(obj) for obj in rendered(overlay)} for overlay in OVERLAYS)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_webhook_is_the_programs(overlay: str) -> None:
    """What API servers are told of the webhook is what the program says of it, for the Service of the manifests."""
    (found,) = of_kind(overlay, "ValidatingWebhookConfiguration")
    service = {"namespace": "arena-system", "name": "arena-webhook", "path": PATH, "port": 443}
    assert found["webhooks"] == webhook_configuration("arena", {"service": service})["webhooks"]
    variables = {each["name"]: each.get("value") for _, container in containers(overlay) for each in container.get("env", ())}
    assert variables[settings.WEBHOOK_SERVICE] == "arena-webhook"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_variable_is_an_option(overlay: str) -> None:
    """Every variable of a container is an option's of the command that it runs, and what has no default is set."""
    app = typer.Typer()
    commands.register(app)
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    ran = set()
    for name, container in containers(overlay):
        if container["command"][0] != "arena":
            continue
        command = container["command"][1]
        ran.add(command)
        variables = {each["name"] for each in container["env"]}
        assert variables - {option.envvar for option in known[command].params} - OURS == set(), name
        needed = {settings.REDIS_URL, settings.IMAGE, settings.GIT_URL} if command == "controller" else set()
        assert needed <= variables, name
    assert ran == set(known)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_one_image(overlay: str) -> None:
    """Every container of ours, and every worker, runs one image, whose tag is the program's version."""
    ours = {container["image"] for _, container in containers(overlay) if container["command"][0] == "arena"}
    workers = {each["value"] for _, container in containers(overlay) for each in container["env"] if each["name"] == settings.IMAGE}
    assert ours == workers == {f"arena:{version('arena-reconciler')}"}
    assert not [name for name, container in containers(overlay) if container["image"].endswith(":latest") or ":" not in container["image"]]


def test_an_image_of_ones_own(tmp_path: Path) -> None:
    """A kustomization of somebody's own names its image as docs/cluster.md shows, and workers run it, too."""
    (tmp_path / "manifests").symlink_to(MANIFESTS)
    shown = (MANIFESTS.parent / "docs/cluster.md").read_text().split("<!-- own -->")[1].split("```")[1].removeprefix("yaml\n")
    (tmp_path / "kustomization.yaml").write_text(shown)
    objects = {called(obj): obj for obj in render(tmp_path)}
    (container,) = objects["Deployment arena-system/arena-controller"]["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert container["image"] == variables[settings.IMAGE] == "registry.example.com/arena:0.1.0"


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_secret(entry: str) -> None:
    """No Secret stands in a manifest; what is secret is referred to."""
    assert of_kind(entry, "Secret") == []
    for name, container in containers(entry):
        for variable in container.get("env", ()):
            if "PASSWORD" in variable["name"] or "TOKEN" in variable["name"]:
                assert "secretKeyRef" in variable["valueFrom"], name


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_names_that_must_meet(overlay: str) -> None:
    """Each selector chooses pods, each named port is one of theirs, each claim has its volume, each account is there."""
    labels = [template["metadata"]["labels"] for _, template in pod_templates(overlay)]
    ports = {port["name"] for _, container in containers(overlay) for port in container.get("ports", ())}
    for service in of_kind(overlay, "Service"):
        assert any(service["spec"]["selector"].items() <= each.items() for each in labels), called(service)
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports, called(service)
    claims = {(obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in of_kind(overlay, "PersistentVolumeClaim")}
    volumes = {(obj["spec"]["claimRef"]["namespace"], obj["spec"]["claimRef"]["name"]) for obj in of_kind(overlay, "PersistentVolume")}
    assert claims == volumes
    accounts = {obj["metadata"]["name"] for obj in of_kind(overlay, "ServiceAccount")}
    bound = {subject["name"] for obj in of_kind(overlay, "RoleBinding", "ClusterRoleBinding") for subject in obj["subjects"]}
    used = {template["spec"].get("serviceAccountName") for _, template in pod_templates(overlay)} - {None}
    assert accounts == bound == used


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_volumes_outlive_their_objects(overlay: str) -> None:
    """Deleting an overlay leaves what is on its volumes: none is reclaimed."""
    assert {obj["spec"]["persistentVolumeReclaimPolicy"] for obj in of_kind(overlay, "PersistentVolume")} == {"Retain"}
