"""`arena cancel`: what it stops, what it says, what it refuses."""

import pytest

from reconcile.cluster.port import ARENA_RUN
from tests.e2e.bundles import bundle
from tests.e2e.installation import Namespace, until

pytestmark = pytest.mark.e2e


def test_cancel_stops_a_run_and_keeps_what_it_did(namespace: Namespace) -> None:
    """Cancel --wait returns when the run has ended as Cancelled; asked again it says the same, and a run that has passed is refused."""
    checkout = namespace.project()
    checkout.commit(bundle(trials=400, latency_ms=400))
    checkout.push()
    namespace.job()
    name = until(lambda: next((run["metadata"]["name"] for run in namespace.runs()), None), "the first run")
    until(lambda: namespace.client.get(ARENA_RUN, namespace.name, name).get("status", {}).get("activeWorkers"), "its worker to start")
    done = namespace.arena("cancel", name, "--wait")
    assert (done.code, done.out) == (0, f"{name} cancelled\n"), done.err
    assert done.err == f"  arena show {name} -n {namespace.name}\n"
    assert namespace.client.get(ARENA_RUN, namespace.name, name)["status"]["phase"] == "Cancelled"
    assert namespace.arena("cancel", name, "--wait").code == 0


def test_cancel_refuses_a_run_that_has_ended(namespace: Namespace) -> None:
    """A run that has its verdict keeps it: cancel exits 2 and says how the run ended."""
    checkout = namespace.project()
    checkout.commit(bundle())
    checkout.push()
    namespace.job()
    name = namespace.ended_run()["metadata"]["name"]
    done = namespace.arena("cancel", name)
    assert done.code == 2
    assert f"cannot cancel run '{name}': it has ended as Succeeded" in done.err


def test_cancel_without_wait_returns_at_once(namespace: Namespace) -> None:
    """A run that still waits for a first push is cancelled too; the command does not wait for it."""
    namespace.project()
    namespace.job()
    name = until(lambda: next((run["metadata"]["name"] for run in namespace.runs()), None), "the first run")
    done = namespace.arena("cancel", name)
    assert (done.code, done.out) == (0, f"{name} is being cancelled\n"), done.err
    assert namespace.ended_run()["status"]["phase"] == "Cancelled"
