"""The worker Job of a run."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.local.worker_order import read_order
from engine import worker_settings
from engine.worker_settings import WorkerSettings
from reconcile.kinds.job_pods import PodOverrides
from reconcile.kinds.names import RUN_LABEL
from reconcile.worker_job import OverridesRefused, worker_job
from tests.reconcile.worker_job_cases import CASES, CLUSTER, EVERYTHING, GOLDENS, LOCAL, golden

NAMES = st.from_regex(r"\A[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?\Z")
VARIABLES = st.one_of(
    st.sampled_from(["HOME", "REDIS_URL", "ARENA_RUN_UID", "ARENA_CRASH_AT", "LOG_LEVEL", "TEAM", "X"]), st.from_regex(r"\A[A-Z_]{1,8}\Z")
)
PATHS = st.lists(st.sampled_from(["workspace-content", "arena-output", "tmp", "mnt", "..", ".", "", "x"]), max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)
VOLUMES = st.sampled_from(["content", "scratch", "vault", "other"])


def overridden(**fields: Any) -> dict[str, Any]:
    """Return the pod template of a Job with overrides, as on the wire."""
    overrides = PodOverrides.model_validate(fields)
    template: dict[str, Any] = worker_job(replace(CLUSTER, overrides=overrides))["spec"]["template"]
    return template


@pytest.mark.parametrize("name", CASES)
def test_the_golden_jobs(name: str) -> None:
    """A case gives the Job that is written down for it; `python -m tests.reconcile.worker_job_cases` writes them anew."""
    assert worker_job(CASES[name]) == golden(name)


def test_no_golden_is_left_over() -> None:
    """Every golden file belongs to a case."""
    assert {path.stem for path in GOLDENS.iterdir()} == set(CASES)


@pytest.mark.parametrize("name", ["local", "local-shared-queue", "local-verbose", "local-credentials"])
def test_the_local_job_runner_takes_a_local_job(name: str) -> None:
    """What the control plane writes in local mode is what the job runner of this machine accepts."""
    order = read_order(golden(name), ("arena", "worker"))
    assert (order.completions, order.backoff_limit_per_index) == (3, 3)


@given(NAMES)
@settings(max_examples=200)
def test_names_within_limits(run: str) -> None:
    """Whatever a run is called, its Job's name is a label that leaves room for an index of five digits, and so is the label that names the run."""
    job = worker_job(replace(CLUSTER, run=run))
    name, label = job["metadata"]["name"], job["metadata"]["labels"][RUN_LABEL]
    assert len(f"{name}-99999") <= 63
    assert "." not in name
    assert len(label) <= 63
    assert label == job["spec"]["template"]["metadata"]["labels"][RUN_LABEL]


@given(NAMES, NAMES)
@settings(max_examples=200)
def test_two_runs_have_two_jobs(one: str, other: str) -> None:
    """Runs of different names have Jobs of different names."""
    names = {worker_job(replace(CLUSTER, run=run))["metadata"]["name"] for run in (one, other)}
    assert len(names) == len({one, other})


def test_a_worker_can_read_its_environment() -> None:
    """What a pod sets, with its references resolved, is all that a worker needs."""
    environment = {
        entry["name"]: entry.get("value", "redis://queue") for entry in golden("cluster")["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    read = worker_settings.from_environment({**environment, "HOSTNAME": "eval-x7k2p-worker-0"})
    assert (read.run, read.installation, str(read.content), read.name) == (LOCAL.uid, "2c9f", "/workspace-content", "eval-x7k2p-worker-0")
    assert isinstance(read, WorkerSettings)


def test_our_labels_win_and_their_annotations() -> None:
    """Labels of the overrides are added, but none replaces one of Arena's; annotations are all theirs."""
    metadata = overridden(labels={"team": "a", RUN_LABEL: "another"}, annotations={"a": "b"})["metadata"]
    assert metadata["labels"] == {**golden("cluster")["spec"]["template"]["metadata"]["labels"], "team": "a"}
    assert metadata["annotations"] == {"a": "b"}


def test_empty_overrides_change_nothing() -> None:
    """Overrides that say nothing give the Job without them."""
    assert overridden() == golden("cluster")["spec"]["template"]


def test_a_service_account_brings_no_token() -> None:
    """A pod of a ServiceAccount that the overrides name holds no Kubernetes credential either."""
    assert overridden(serviceAccountName="evaluator")["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        pytest.param({"extraEnv": [{"name": "HOME", "value": "/x"}]}, "extraEnv[0]: variable 'HOME' is Arena's own", id="a variable that is set"),
        pytest.param({"extraEnv": [{"name": "ARENA_CRASH_AT"}]}, "extraEnv[0]: variable 'ARENA_CRASH_AT' is Arena's own", id="a variable of ours"),
        pytest.param({"extraEnv": [{"name": "A"}, {"name": "A"}]}, "extraEnv[1]: variable 'A' is there already", id="a variable twice"),
        pytest.param({"labels": {"job-name": "x"}}, "labels: 'job-name' belongs to the Job controller", id="a label of the Job controller"),
        pytest.param(
            {"extraVolumes": [{"name": "content", "emptyDir": {}}]}, "extraVolumes[0]: volume 'content' is Arena's own", id="a volume of our name"
        ),
        pytest.param(
            {"extraVolumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]},
            "extraVolumes[1]: volume 'v' is there already",
            id="a volume twice",
        ),
        pytest.param(
            {"extraVolumes": [{"name": "v", "hostPath": {"path": "/"}}]},
            "extraVolumes[0]: volume 'v' has the source 'hostPath', which restricted pods may not have",
            id="the node's own files",
        ),
        pytest.param(
            {"extraVolumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "arena-content"}}]},
            "extraVolumes[0]: volume 'v' claims 'arena-content', which holds the content of other runs",
            id="the whole content volume",
        ),
        pytest.param(
            {"extraVolumeMounts": [{"name": "content", "mountPath": "/all"}]},
            "extraVolumeMounts[0]: volume 'content' is Arena's own",
            id="a mount of the content volume",
        ),
        pytest.param(
            {"extraVolumeMounts": [{"name": "v", "mountPath": "/all"}]},
            "extraVolumeMounts[0]: volume 'v' is not among extraVolumes",
            id="a mount of no volume",
        ),
        *(
            pytest.param(
                {"extraVolumes": [{"name": "v", "emptyDir": {}}], "extraVolumeMounts": [{"name": "v", "mountPath": path}]},
                f"extraVolumeMounts[0]: path '{path}' {problem}",
                id=f"a mount at {path}",
            )
            for path, problem in (
                ("/arena-output/", "would cover Arena's own /arena-output"),
                ("//arena-output", "would cover Arena's own /arena-output"),
                ("/x/../arena-output/parts", "would cover Arena's own /arena-output"),
                ("/", "would cover Arena's own /workspace-content"),
                ("data", "must be absolute"),
            )
        ),
    ],
)
def test_an_override_that_clashes_is_refused(fields: dict[str, Any], problem: str) -> None:
    """An override that would replace something of Arena's, or reach what a worker may not, is refused by name, never dropped."""
    with pytest.raises(OverridesRefused) as refused:
        overridden(**fields)
    assert any(said.startswith(problem) for said in refused.value.problems), refused.value.problems


def test_all_problems_are_named_at_once() -> None:
    """Whoever writes overrides learns of everything that is wrong with them."""
    with pytest.raises(OverridesRefused, match=r"spec\.workers\.podOverrides .*'HOME'.*'job-name'|'job-name'.*'HOME'"):
        overridden(extraEnv=[{"name": "HOME"}], labels={"job-name": "x"})


@given(
    st.fixed_dictionaries(
        {
            "extraEnv": st.lists(st.fixed_dictionaries({"name": VARIABLES, "value": st.text(max_size=3)}), max_size=3),
            "extraVolumes": st.lists(VOLUMES.map(lambda name: {"name": name, "emptyDir": {}}), max_size=2),
            "extraVolumeMounts": st.lists(st.fixed_dictionaries({"name": VOLUMES, "mountPath": PATHS}), max_size=2),
            "labels": st.dictionaries(st.sampled_from([RUN_LABEL, "team"]), st.just("x")),
        }
    )
)
@settings(max_examples=120)
def test_whatever_is_taken_leaves_ours_alone(fields: dict[str, Any]) -> None:
    """Overrides that are taken only add: each of our variables, volumes, mounts and labels is there once, as it was, and no name is there twice."""
    ours = golden("cluster")["spec"]["template"]
    try:
        taken = overridden(**fields)
    except OverridesRefused:
        return
    container, own = taken["spec"]["containers"][0], ours["spec"]["containers"][0]
    for now, before, key in (
        (container["env"], own["env"], "name"),
        (container["volumeMounts"], own["volumeMounts"], "mountPath"),
        (taken["spec"]["volumes"], ours["spec"]["volumes"], "name"),
    ):
        assert now[: len(before)] == before
        assert len({entry[key] for entry in now}) == len(now)
    assert taken["metadata"]["labels"].items() >= ours["metadata"]["labels"].items()


def test_every_field_of_the_overrides_has_an_effect() -> None:
    """No field is read and ignored: each of them alone changes the pod."""
    plain = overridden()
    volumes = {"extraVolumes": EVERYTHING["extraVolumes"]}
    assert {PodOverrides.model_fields[name].alias for name in PodOverrides.model_fields} == set(EVERYTHING)
    for field, value in EVERYTHING.items():
        needed = volumes if field == "extraVolumeMounts" else {}
        assert overridden(**needed, **{field: value}) != (overridden(**needed) if needed else plain), field
