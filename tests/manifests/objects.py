"""Objects of a team, as somebody would apply them."""

from collections.abc import Mapping
from typing import Any

from reconcile.kinds.names import API_VERSION
from tests.e2e.bundles import bundle


def ours(kind: str, name: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object of ours."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def long_run() -> list[Mapping[str, Any]]:
    """Return a project with a run that takes its time."""
    files = {path.replace("/", "__"): text for path, text in bundle(trials=500, latency_ms=500).items()}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "long"}, "data": files},
        ours("ArenaProject", "long", {"hosted": {"seed": {"configMap": {"name": "long"}}}}),
        ours("ArenaRun", "long", {"jobRef": {"name": "none"}, "template": {"sourceRef": {"name": "long"}}}),
    ]
