"""The restricted pod security standard, checked here for every pod that is installed; a cluster checks it again where a namespace enforces it."""

import pytest

from tests.manifests.rendering import OVERLAYS, containers, of_kind, pod_templates

VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
OUTSIDE = {"hostNetwork", "hostPID", "hostIPC", "hostUsers"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_are_restricted(overlay: str) -> None:
    """Pods run as a user other than root, with a seccomp profile, nothing of the node and none of its volumes."""
    for name, template in pod_templates(overlay):
        spec, security = template["spec"], template["spec"]["securityContext"]
        assert security["runAsNonRoot"] is True, name
        assert security["runAsUser"] == security["runAsGroup"] == security["fsGroup"] == 65532, name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not OUTSIDE & spec.keys(), name
        assert {source for volume in spec["volumes"] for source in volume if source != "name"} <= VOLUMES, name


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_containers_are_restricted(overlay: str) -> None:
    """Containers gain no privilege, have no capability, and cannot write to their root."""
    for name, container in containers(overlay):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name
        assert not [port for port in container["ports"] if "hostPort" in port], name


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_containers_are_bounded_and_asked(overlay: str) -> None:
    """Containers say what they need and at most take, and are asked whether they have started, live and are ready."""
    for name, container in containers(overlay):
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys(), name
        assert "memory" in container["resources"]["limits"], name
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys(), name


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_tokens_are_mounted_where_they_are_needed(overlay: str) -> None:
    """A pod has the token of an account of its own, or none; and no Service becomes a variable of ours."""
    for name, template in pod_templates(overlay):
        spec = template["spec"]
        assert spec["automountServiceAccountToken"] is ("serviceAccountName" in spec), name
        assert spec["enableServiceLinks"] is False, name


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_namespaces_enforce_it(overlay: str) -> None:
    """Every namespace that is installed has the cluster enforce the standard."""
    for namespace in of_kind(overlay, "Namespace"):
        assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_is_behind_a_policy(overlay: str) -> None:
    """Every pod of ours is chosen by a NetworkPolicy that lets in what it names, and nobody else is let in."""
    policies = of_kind(overlay, "NetworkPolicy")
    for name, template in pod_templates(overlay):
        labels = template["metadata"]["labels"].items()
        assert any(policy["spec"]["podSelector"].get("matchLabels", {"": ""}).items() <= labels for policy in policies), name
    closed = [policy["metadata"]["namespace"] for policy in policies if policy["spec"]["podSelector"] == {} and "ingress" not in policy["spec"]]
    assert closed == ["arena-system"]
