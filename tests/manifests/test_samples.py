"""The samples: what they say, and what becomes of them in local mode."""

import pytest
import yaml

from reconcile.arena_run import finished
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN
from tests.e2e.installation import Namespace, run_interpreter, until
from tests.manifests.rendering import MANIFESTS, of_kind, rendered

BUNDLE = MANIFESTS / "samples/bundle"


def test_the_seed_is_the_bundle() -> None:
    """The first commit holds every file of the sample bundle, under its own path."""
    (config_map,) = of_kind("samples", "ConfigMap")
    files = {path.relative_to(BUNDLE).as_posix(): path.read_text() for path in BUNDLE.rglob("*") if path.is_file()}
    assert {key.replace("__", "/"): text for key, text in config_map["data"].items()} == files


def test_samples_are_of_no_namespace() -> None:
    """The samples go into the namespace where a person is, and need no kind that an installation may leave out."""
    assert {obj["kind"] for obj in rendered("samples")} == {"ConfigMap", "ArenaProject", "ArenaJob", "ArenaRun"}
    assert not [obj for obj in rendered("samples") if "namespace" in obj["metadata"]]


@pytest.mark.slow
def test_samples_in_local_mode(namespace: Namespace) -> None:
    """Applied to a local installation, the samples reach their verdicts; deleted, they are gone."""
    text = yaml.safe_dump_all([dict(obj) for obj in rendered("samples")])
    server = namespace.server

    def arena(verb: str) -> None:
        words = [verb, "-f", "-", "-n", namespace.name, "--state", str(server.state.root)]
        done = run_interpreter(words, server.environment, server.home, text)
        assert done.code == 0, done.err

    arena("apply")

    def ended() -> list[str] | None:
        runs = namespace.client.list(ARENA_RUN, namespace.name)["items"]
        return [run["status"]["phase"] for run in runs] if len(runs) == 2 and all(map(finished, runs)) else None

    assert until(ended, "both runs to end") == ["Succeeded", "Succeeded"]
    arena("delete")
    left = [kind for kind in (ARENA_PROJECT, ARENA_JOB, ARENA_RUN) if namespace.client.list(kind, namespace.name)["items"]]
    assert left == []
