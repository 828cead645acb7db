"""Admission: what is stored, what is refused, what is let pass on an update."""

import subprocess
import sys
from copy import deepcopy
from typing import Any

import pytest

from reconcile.errors import Invalid
from reconcile.kinds.admission import admit, admit_status, project_problems, spec_problems
from reconcile.kinds.names import API_VERSION

JOB = {"sourceRef": {"name": "src"}}


def job(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """Return an ArenaJob as a person writes it."""
    return {"apiVersion": API_VERSION, "kind": "ArenaJob", "metadata": {"name": "x", "namespace": "arena", **metadata}, "spec": spec or JOB}


def refusal(kind: str, new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    """Return what admission says, field by field."""
    with pytest.raises(Invalid) as caught:
        admit(kind, new, old)
    return [f"{error.path}: {error.message}" for error in caught.value.errors]


def test_the_api_servers_words() -> None:
    """A bad pattern is answered as the specification shows it."""
    said = refusal("ArenaJob", job({**JOB, "budgetLimit": "$25.00"}))
    assert said == [r"""spec.budgetLimit: Invalid value: "$25.00": spec.budgetLimit in body should match '^[0-9]+(\.[0-9]+)?$'"""]


def test_a_rule_is_answered_with_its_message() -> None:
    """A broken rule names its field, and the message says what to do."""
    said = refusal("ArenaProject", {**job({"hosted": {}, "external": {"url": "https://h/p"}}), "kind": "ArenaProject"})
    assert said == ['spec: Invalid value: "object": a project has exactly one of hosted and external']


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"spec": {**JOB, "trails": 5}}, 'spec.trails: unknown field "spec.trails"; did you mean "trials"?', id="in the spec"),
        pytest.param({"sepc": {}}, 'sepc: unknown field "sepc"; did you mean "spec"?', id="at the root"),
        pytest.param(
            {"metadata": {"name": "x", "lables": {}}}, 'metadata.lables: unknown field "metadata.lables"; did you mean "labels"?', id="in metadata"
        ),
    ],
)
def test_unknown_fields(change: dict[str, Any], message: str) -> None:
    """An unknown field is an error with a suggestion, and with `prune` a warning, and is dropped."""
    new = {**job(), **change}
    assert refusal("ArenaJob", new) == [message]
    admitted = admit("ArenaJob", new, None, unknown="prune")
    assert admitted.warnings == [message.split(": ", 1)[1]]
    assert admitted.object["spec"].keys().isdisjoint({"trails"})
    assert admitted.object["metadata"].keys() == {"name"} | (set() if "metadata" in change else {"namespace"})


def test_a_neighbours_fields_are_kept() -> None:
    """What another product's spec holds beside ours stays, at any depth below an unknown key; ours are still checked."""
    spec = {"type": "mock", "theirs": {"deep": [None, 1]}}
    new = {**job(spec), "kind": "Provider"}
    assert admit("Provider", new, None).object["spec"] == {**spec, "role": "llm"}
    assert refusal("Provider", {**new, "spec": {**spec, "defaults": {"temprature": "1"}}}) == [
        'spec.defaults.temprature: unknown field "spec.defaults.temprature"; did you mean "temperature"?'
    ]


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"spec": None}, id="a null spec"),
        pytest.param({"spec": "text"}, id="a spec that is a string"),
        pytest.param({"spec": []}, id="a spec that is a list"),
        pytest.param({"metadata": []}, id="metadata that is a list"),
        pytest.param({"spec": {"sourceRef": None}}, id="a null where a value must be"),
        pytest.param({"spec": {"sourceRef": {"name": ["x"]}}}, id="a list for a name"),
        pytest.param({"spec": {**JOB, "providers": "gpt"}}, id="providers that are a string"),
        pytest.param({"spec": {**JOB, "schedule": "daily"}}, id="a schedule that is a string"),
        pytest.param({"spec": {**JOB, "scenarios": {"include": "x"}}}, id="a string for a list"),
    ],
)
def test_whatever_comes_is_answered(broken: dict[str, Any]) -> None:
    """An object of any shape is refused with a field, never with a stack trace."""
    assert refusal("ArenaJob", {**job(), **broken})


def test_nothing_given_is_changed() -> None:
    """Admission answers with a copy."""
    new = job({**JOB, "workers": {}})
    before = deepcopy(new)
    admit("ArenaJob", new, None)
    assert new == before


def test_other_kinds_pass() -> None:
    """A kind that is not ours is not looked at."""
    secret = {"apiVersion": "v1", "kind": "Secret", "whatever": 1}
    assert admit("Secret", secret, None).object is secret
    admit_status("Secret", secret, secret)


def test_an_unchanged_spec_is_not_checked_again() -> None:
    """An object that an older program took, and this one would refuse, can still lose its finalizers; a change of its spec cannot pass."""
    stored = admit("ArenaJob", job(finalizers=["a/b"]), None).object
    stored["spec"] |= {"type": "benchmark", "theirs": 1, "providers": {"default": "gpt"}}
    released = {**stored, "metadata": {**stored["metadata"], "finalizers": []}}
    assert admit("ArenaJob", released, stored).object["metadata"]["finalizers"] == []
    assert refusal("ArenaJob", {**released, "spec": {**stored["spec"], "trials": 2}}, stored)


def test_a_status_is_checked_where_it_changes() -> None:
    """A status write meets the status' schema; what a newer program left there, or a spec that is wrong by now, does not stand in its way."""
    stored = {**admit("ArenaJob", job(), None).object, "status": {"newer": True}}
    stored["spec"]["type"] = "benchmark"
    admit_status("ArenaJob", {**stored, "status": {"activeCount": 1, "newer": True}}, stored)
    with pytest.raises(Invalid, match=r"status\.newest"):
        admit_status("ArenaJob", {**stored, "status": {"newest": True, "newer": True}}, stored)
    with pytest.raises(Invalid, match=r"status\.activeCount"):
        admit_status("ArenaJob", {**stored, "status": {"activeCount": -1}}, stored)


def test_a_hand_written_run_of_another_namespaces_provider() -> None:
    """A providerRef may name the object's own namespace only."""
    entry = {"providerRef": {"name": "p", "namespace": "other"}}
    run = {**job({"jobRef": {"name": "j"}, "template": {**JOB, "providers": {"default": [entry]}}}), "kind": "ArenaRun"}
    assert "namespace 'other'" in refusal("ArenaRun", run)[0]
    assert refusal("ArenaRun", run)[0].startswith("spec.template.providers.default[0].providerRef.namespace")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(JOB, [], id="nothing"),
        pytest.param({**JOB, "trails": 1}, [("InvalidSpec", "spec.trails")], id="an unknown field"),
        pytest.param({}, [("InvalidSpec", "spec.sourceRef")], id="a required field"),
        pytest.param({**JOB, "baseline": {}}, [("InvalidSpec", "spec.baseline")], id="a rule"),
        pytest.param({**JOB, "arenaFile": "../x"}, [("InvalidSpec", "spec.arenaFile")], id="a check"),
        pytest.param({**JOB, "providers": {"a": [{}]}}, [("InvalidProviderEntry", "spec.providers.a[0]")], id="a provider entry"),
        pytest.param(
            {**JOB, "providers": {"a": {"providerRef": {"name": "p"}}}},
            [("InvalidProviderEntry", "spec.providers.a")],
            id="an entry in place of a group",
        ),
    ],
)
def test_spec_problems(spec: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """A run says of its template what admission would have said, with the reason for its condition."""
    assert [(problem.reason, problem.path) for problem in spec_problems(spec)] == expected


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        pytest.param({"hosted": {}}, [], id="nothing"),
        pytest.param(
            {"hosted": {"seed": {"configMap": {"name": "s", "items": [{"key": "a", "path": "a"}, {"key": "b", "path": "../b"}]}}}},
            ["spec.hosted.seed.configMap.items[1].path"],
            id="a seed that climbs out",
        ),
        pytest.param({"hosted": {}, "deploy": {"allowedRefs": ["refs/[a"]}}, ["spec.deploy.allowedRefs[0]"], id="a glob"),
    ],
)
def test_project_problems(spec: dict[str, Any], paths: list[str]) -> None:
    """A project's paths and globs are checked too, and admission refuses what they say."""
    assert [problem.path for problem in project_problems(spec)] == paths
    project = {**job(spec), "kind": "ArenaProject"}
    assert [said.split(": ")[0] for said in (refusal("ArenaProject", project) if paths else [])] == paths


def test_importing_the_package_loads_nothing() -> None:
    """`import reconcile.kinds` and its names and reasons stay without pydantic, so that start-up does not pay for it."""
    code = "import sys, reconcile.kinds, reconcile.kinds.names, reconcile.kinds.reasons; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
