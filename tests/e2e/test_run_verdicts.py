"""What `arena run --wait` says and returns, and when a run begins."""

import time

import pytest

from reconcile.cluster.port import ARENA_JOB, ARENA_RUN
from tests.e2e.bundles import bundle
from tests.e2e.installation import Namespace, ready, until

pytestmark = pytest.mark.e2e


def pushed(namespace: Namespace, **changes: object) -> str:
    """Push a small bundle with some files replaced, and return the commit."""
    checkout = namespace.project()
    files = {**bundle(), **{name.replace("__", "/"): str(text) for name, text in changes.items()}}
    commit = checkout.commit(files)
    assert checkout.push().code == 0
    return commit


def test_passing_run_exits_0(namespace: Namespace) -> None:
    """A run whose items all pass exits 0, with the verdict on stdout and the progress on stderr."""
    commit = pushed(namespace)
    namespace.job()
    done = namespace.arena("run", "eval", "--wait")
    assert done.code == 0, done.err
    assert done.out.startswith("passed  eval-")
    assert commit[:12] in done.out
    assert f"commit {commit[:12]} · 1 item · 1 worker" in done.err


def test_failing_run_exits_1(namespace: Namespace) -> None:
    """A run with a failed check exits 1, names the check and ends with the command that shows more."""
    checkout = namespace.project()
    checkout.commit(bundle(answer="never"))
    checkout.push()
    namespace.job(spec={"failedRunsHistoryLimit": 5})  # the job's own first run fails at the same time, and by default one of them is kept
    done = namespace.arena("run", "eval", "--wait")
    assert done.code == 1, done.err
    assert "content_includes" in done.out
    assert done.out.rstrip().splitlines()[-1].strip().startswith("arena show eval-")
    shown = namespace.arena(*done.out.rstrip().splitlines()[-1].split()[1:])
    assert shown.code == 0
    assert "Can I return my order?" in shown.out


REFUSALS = [
    pytest.param({"scenarios": {"include": ["nothing-of-this-name"]}}, "NoScenarios", "nothing-of-this-name", id="a filter that matches nothing"),
    pytest.param({"arenaFile": "other.yaml"}, "ArenaFileNotFound", "other.yaml", id="an arenaFile that is not there"),
    pytest.param({"trials": 20_000}, "MatrixTooLarge", "20000", id="a matrix over the cap"),
    pytest.param({"providers": {"default": [{"providerRef": {"name": "ghost"}}]}}, "ProviderNotFound", "ghost", id="an unknown provider"),
    pytest.param({"ref": "no-such-branch"}, "RefNotFound", "no-such-branch", id="an unknown ref"),
    pytest.param({"baseline": {"ref": "main"}}, "NotSupported", "spec.baseline", id="a field that is not supported yet"),
]


@pytest.mark.parametrize(("spec", "reason", "said"), REFUSALS)
def test_refused_run_exits_2(namespace: Namespace, spec: dict[str, object], reason: str, said: str) -> None:
    """What is refused before the first item exits 2, says the reason and names the thing; nothing is planned."""
    pushed(namespace)
    namespace.job(spec=spec)
    done = namespace.arena("run", "eval", "--wait")
    assert done.code == 2, done.out + done.err
    assert done.out.startswith("refused")
    assert reason in done.out
    assert said in done.out.replace(",", "")
    assert all("plan" not in run["status"] for run in namespace.runs() if run.get("status", {}).get("phase") == "Failed")


BROKEN_BUNDLES = [
    pytest.param("scenarios/s0.yaml", "type: content_includes", "type: content_icludes", "content_includes", id="an unknown check: the near miss"),
    pytest.param("scenarios/s0.yaml", "patterns:", "paterns:", "patterns", id="a mistyped parameter: the near miss"),
    pytest.param("config.arena.yaml", "scenarios/s0.yaml", "scenarios/gone.yaml", "scenarios/gone.yaml", id="a missing scenario file"),
    pytest.param("config.arena.yaml", "providers:", "providrs:", "providers", id="a mistyped key"),
]


@pytest.mark.parametrize(("file", "right", "wrong", "said"), BROKEN_BUNDLES)
def test_broken_bundle_exits_2(namespace: Namespace, file: str, right: str, wrong: str, said: str) -> None:
    """A bundle that cannot be read as meant is refused with file and line, and the nearest word that would be right."""
    checkout = namespace.project()
    files = dict(bundle())
    checkout.commit({**files, file: files[file].replace(right, wrong)})
    checkout.push()
    namespace.job()
    done = namespace.arena("run", "eval", "--wait")
    assert done.code == 2, done.out
    assert "BundleInvalid" in done.out
    assert f"{file}:" in done.out
    assert said in done.out


def test_filter_that_is_no_glob_is_refused_by_apply(namespace: Namespace) -> None:
    """A filter that cannot be read never becomes a job."""
    manifest = f"apiVersion: {ARENA_JOB.api_version}\nkind: ArenaJob\nmetadata: {{name: eval}}\nspec: {{sourceRef: {{name: p}}, scenarios: {{include: ['[z-a']}}}}\n"
    done = namespace.arena("apply", "-f", "-", text=manifest)
    assert done.code == 2
    assert "spec.scenarios.include[0]" in done.err
    assert namespace.client.list(ARENA_JOB, namespace.name)["items"] == []


def test_cancelled_run_exits_3(namespace: Namespace) -> None:
    """A run that a person cancels exits 3; what it had not begun is not run."""
    checkout = namespace.project()
    checkout.commit(bundle(trials=400, latency_ms=400))
    checkout.push()
    namespace.job()
    name = until(lambda: next((run["metadata"]["name"] for run in namespace.runs()), None), "the first run")
    until(lambda: namespace.client.get(ARENA_RUN, namespace.name, name).get("status", {}).get("activeWorkers"), "its worker to start")
    namespace.client.patch(ARENA_RUN, namespace.name, name, {"spec": {"cancelled": True}})
    ended = namespace.ended_run()
    assert ended["status"]["phase"] == "Cancelled"
    summary = ended["status"]["result"]["summary"]
    assert int(summary["totalItems"]) < 400
    shown = namespace.arena("show", name)
    assert shown.out.startswith("cancelled")


def test_run_that_cannot_reach_its_end_exits_3(namespace: Namespace) -> None:
    """A run past its deadline exits 3."""
    checkout = namespace.project()
    checkout.commit(bundle(trials=400, latency_ms=400))
    checkout.push()
    namespace.job(spec={"deadline": "2s"})
    done = namespace.arena("run", "eval", "--wait")
    assert done.code == 3, done.out
    assert "DeadlineExceeded" in done.out


def test_job_applied_before_the_first_push_waits_then_runs(namespace: Namespace) -> None:
    """A job whose project has no commit yet waits as Pending, says for what, and runs the commit that comes."""
    checkout = namespace.project()
    namespace.job()
    waiting = until(lambda: next((run for run in namespace.runs() if "RepositoryEmpty" in ready(run)[1]), None), "the run to wait")
    assert (waiting["status"]["phase"], ready(waiting)[0]) == ("Pending", "ProjectNotReady")
    commit = checkout.commit(bundle())
    assert checkout.push().code == 0
    begun = time.monotonic()
    until(lambda: "source" in namespace.runs()[0]["status"], "the run to be pinned")
    assert time.monotonic() - begun < 25, "the push wakes the run; nobody waits for the 30 s interval"
    run = namespace.ended_run()
    assert run["metadata"]["name"] == waiting["metadata"]["name"]
    assert (run["status"]["phase"], run["status"]["source"]["commit"]) == ("Succeeded", commit)


def test_each_push_of_a_watched_ref_gets_its_verdict(namespace: Namespace) -> None:
    """With onPush a commit that breaks the bundle fails and the next, which mends it, passes; each run names its commit."""
    checkout = namespace.project()
    namespace.job(spec={"onPush": {}})
    phases = []
    for answer in ("within 30 days", "never", "for 30 days"):
        commit = checkout.commit(bundle(answer=answer))
        assert checkout.push().code == 0
        phases.append(namespace.ended_run_of(commit)["status"]["phase"])
    assert phases == ["Succeeded", "Failed", "Succeeded"]
    assert len(namespace.runs()) == 3
