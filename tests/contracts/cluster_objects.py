"""Small valid objects for the contract suites of a cluster."""

from typing import Any

from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, Object, ResourceKind

NS = "arena"


def make(kind: ResourceKind, name: str, **rest: Any) -> Object:
    """Return a small valid object; `rest` goes beside metadata, and `metadata` into it."""
    metadata = {"name": name} | ({"namespace": NS} if kind.namespaced else {}) | rest.pop("metadata", {})
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **rest}


def job(name: str, **rest: Any) -> Object:
    """Return an ArenaJob."""
    return make(ARENA_JOB, name, **({"spec": {"sourceRef": {"name": "src"}}} | rest))


def run(name: str, **rest: Any) -> Object:
    """Return an ArenaRun."""
    return make(ARENA_RUN, name, **({"spec": {"jobRef": {"name": "j"}, "template": {"sourceRef": {"name": "src"}}}} | rest))
