"""What `kubectl kustomize` makes of the manifests, without a cluster."""

import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
MANIFESTS: Final = ROOT / "manifests"
OVERLAYS: Final = ("overlays/single-node", "overlays/production")
ENTRIES: Final = (*OVERLAYS, "base", "tenant", "samples", "crds/arena", "crds/neighbours")
"""Every folder that somebody may apply or build on; components are rendered within a kustomization."""
COMPONENTS: Final = ("neighbours", "valkey", "cert-manager")

Object = Mapping[str, Any]


@cache
def rendered(entry: str) -> tuple[Object, ...]:
    """Return the objects of a folder of manifests/."""
    return render(MANIFESTS / entry)


def render(folder: Path) -> tuple[Object, ...]:
    """Return the objects of a kustomization."""
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return tuple(obj for obj in yaml.safe_load_all(done.stdout) if obj)


def of_kind(entry: str, *kinds: str) -> list[Object]:
    """Return the objects of some kinds."""
    return [obj for obj in rendered(entry) if obj["kind"] in kinds]


def called(obj: Object) -> str:
    """Return what an object is called in an assertion."""
    metadata = obj["metadata"]
    return f"{obj['kind']} {metadata.get('namespace', '')}/{metadata['name']}"


def pod_templates(entry: str) -> Iterator[tuple[str, Object]]:
    """Yield the pod templates of all workloads."""
    for obj in of_kind(entry, "Deployment", "StatefulSet", "DaemonSet", "Job"):
        yield called(obj), obj["spec"]["template"]


def containers(entry: str) -> Iterator[tuple[str, Object]]:
    """Yield the containers of all workloads."""
    for name, template in pod_templates(entry):
        for container in (*template["spec"].get("initContainers", ()), *template["spec"]["containers"]):
            yield f"{name} {container['name']}", container
