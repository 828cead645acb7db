"""Rules that no type can state: each predicate holds and fails as its CEL says."""

from typing import Any

import pytest

from reconcile.errors import Invalid
from reconcile.kinds.admission import admit, admit_status
from reconcile.kinds.catalog import CATALOG
from reconcile.kinds.names import API_VERSION
from reconcile.kinds.rule import Rule, matches
from reconcile.kinds.rules import rules_of
from reconcile.kinds.schema import schema_of

Spec = dict[str, Any]
JOB: Spec = {"sourceRef": {"name": "src"}}
RUN: Spec = {"jobRef": {"name": "j"}, "template": JOB}
BEDROCK: Spec = {"type": "claude", "model": "m", "platform": {"type": "bedrock"}, "auth": {"type": "workloadIdentity"}}
SECRET = {"name": "s"}
URL = "https://git.example.com/team/prompts.git"


def run_with(**template: Any) -> Spec:
    """Return a run's spec with more in its template."""
    return {**RUN, "template": {**JOB, **template}}


def on(platform: Spec, auth: Spec, kind: str = "claude") -> Spec:
    """Return a provider on a platform."""
    return {"type": kind, "model": "m", "platform": platform, "auth": auth}


IDENTITY = {"type": "workloadIdentity"}
# kind, words of the rule's message, a spec that keeps it, one that breaks it: (old, new) for a transition
EXAMPLES: list[tuple[str, str, Any, Any]] = [
    ("ArenaJob", "output needs the block", {**JOB, "output": {"type": "pvc", "pvc": {"claimName": "c"}}}, {**JOB, "output": {"type": "pvc"}}),
    ("ArenaJob", "budgetLimit has been removed", {**JOB, "loadTest": {}}, {**JOB, "loadTest": {"budgetLimit": 25}}),
    ("ArenaJob", "exactly one of ref and run", {**JOB, "baseline": {"ref": "main"}}, {**JOB, "baseline": {"ref": "main", "run": "r"}}),
    ("ArenaRun", "output needs the block", run_with(output={"type": "s3", "s3": {"bucket": "b"}}), run_with(output={"type": "s3"})),
    ("ArenaRun", "budgetLimit has been removed", run_with(loadTest={}), run_with(loadTest={"budgetLimit": "1"})),
    ("ArenaRun", "exactly one of ref and run", run_with(baseline={"run": "r"}), run_with(baseline={})),
    ("ArenaRun", "template is frozen", (RUN, RUN), (run_with(providers={"a": []}), RUN)),
    ("ArenaRun", "job cannot be changed", (RUN, RUN), ({**RUN, "jobRef": {"name": "other"}}, RUN)),
    ("ArenaRun", "trigger cannot be changed", (RUN, RUN), ({**RUN, "trigger": "Push"}, RUN)),
    ("ArenaProject", "exactly one of hosted and external", {"hosted": {}}, {"hosted": {}, "external": {"url": URL}}),
    ("ArenaProject", "stays hosted or external", ({"hosted": {}}, {"hosted": {}}), ({"hosted": {}}, {"external": {"url": URL}})),
    (
        "ArenaProject",
        "hash of a repository",
        ({"hosted": {}}, {"hosted": {"objectFormat": "sha1"}}),
        ({"hosted": {}}, {"hosted": {"objectFormat": "sha256"}}),
    ),
    ("ArenaProject", "only https remotes", {"external": {"url": URL}}, {"external": {"url": "ssh://git.example.com/p.git"}}),
    ("ArenaProject", "must not hold credentials", {"external": {"url": URL}}, {"external": {"url": "https://u:p@git.example.com/p.git"}}),
    ("ArenaProject", "not a URL of a git remote", {"external": {"url": "https://h:8443/p"}}, {"external": {"url": "https://h/p.git?x=1"}}),
    ("ArenaProject", "every 10s at most", {"external": {"url": URL, "pollInterval": "10s"}}, {"external": {"url": URL, "pollInterval": "9.9s"}}),
    ("Provider", "needs a model", {"type": "mock"}, {"type": "claude", "model": ""}),
    ("Provider", "does not have this role", {"type": "openai", "model": "m", "role": "stt"}, {"type": "claude", "model": "m", "role": "stt"}),
    ("Provider", "go together", BEDROCK, {"type": "claude", "model": "m", "auth": IDENTITY}),
    ("Provider", "does not take this auth", BEDROCK, on({"type": "bedrock"}, {"type": "serviceAccount", "credentialsSecretRef": SECRET})),
    ("Provider", "does not offer", on({"type": "azure", "endpoint": "e"}, IDENTITY, "openai"), on({"type": "bedrock"}, IDENTITY, "gemini")),
    (
        "Provider",
        "for type mock only",
        {"type": "mock", "mock": {"configMap": {"name": "a", "key": "b"}}},
        {"type": "claude", "model": "m", "mock": {"configMap": {"name": "a", "key": "b"}}},
    ),
    ("Provider", "vertex needs a project", on({"type": "vertex", "project": "p"}, IDENTITY), on({"type": "vertex", "project": ""}, IDENTITY)),
    ("Provider", "azure needs an endpoint", on({"type": "azure", "endpoint": "e"}, IDENTITY), on({"type": "azure"}, IDENTITY)),
    (
        "Provider",
        "needs credentials",
        on({"type": "bedrock"}, {"type": "accessKey", "credentialsSecretRef": SECRET}),
        on({"type": "bedrock"}, {"type": "accessKey"}),
    ),
    (
        "Provider",
        "comes from one place",
        {"type": "claude", "model": "m", "credential": {"envVar": "K"}},
        {"type": "claude", "model": "m", "credential": {"envVar": "K", "filePath": "/k"}},
    ),
    (
        "Workspace",
        "exactly one of existingSecret",
        {"namespace": {"name": "a"}, "services": [{"name": "g", "redis": {"host": "h", "port": 6380}}]},
        {"namespace": {"name": "a"}, "services": [{"name": "g", "redis": {"port": 6380}}]},
    ),
]
STATUS_FIELDS = {
    "source": ({"repository": "hosted", "commit": "a"}, {"repository": "hosted", "commit": "b"}),
    "queue": ({"source": "Default"}, {"source": "ServiceGroup"}),
    "plan": ({"digest": "sha256:a"}, {"digest": "sha256:b"}),
    "workers": (2, 3),
}


def an_object(kind: str, spec: Spec) -> dict[str, Any]:
    """Return an object of a kind."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def put(kind: str, example: Any) -> None:
    """Create an example, or update it when it is a pair."""
    old, new = example if isinstance(example, tuple) else (None, example)
    stored = None if old is None else admit(kind, an_object(kind, old), None).object
    admit(kind, an_object(kind, new), stored)


@pytest.mark.parametrize(("kind", "words", "good", "bad"), [pytest.param(*e, id=f"{e[0]}: {e[1]}") for e in EXAMPLES])
def test_a_rule_holds_and_fails(kind: str, words: str, good: Any, bad: Any) -> None:
    """A rule takes what keeps it, and its message answers what breaks it."""
    put(kind, good)
    with pytest.raises(Invalid, match=words):
        put(kind, bad)


@pytest.mark.parametrize("field", STATUS_FIELDS)
def test_what_a_run_pins_is_set_once(field: str) -> None:
    """Source, queue, plan and workers can be set and repeated, but neither changed nor dropped."""
    run = admit("ArenaRun", an_object("ArenaRun", RUN), None).object
    first, other = ({**run, "status": {field: value}} for value in STATUS_FIELDS[field])
    admit_status("ArenaRun", first, run)
    admit_status("ArenaRun", {**first, "status": {**first["status"], "phase": "Running"}}, first)
    for changed in (other, run, {**run, "status": {}}):
        with pytest.raises(Invalid, match=rf"status\.{field} is set once"):
            admit_status("ArenaRun", changed, first)


def test_every_rule_has_an_example() -> None:
    """No rule goes without a case in which it holds and one in which it fails."""
    rules = [(kind, rule.message) for kind in CATALOG for rule in rules_of(kind)]
    shown = [(kind, words) for kind, words, _, _ in EXAMPLES] + [("ArenaRun", f"status.{field} is set once") for field in STATUS_FIELDS]
    assert [rule for rule in rules if sum(kind == rule[0] and words in rule[1] for kind, words in shown) != 1] == []
    assert len(shown) == len(rules)


@pytest.mark.parametrize("kind", CATALOG)
def test_a_rule_stands_in_the_schema_with_its_cel(kind: str) -> None:
    """The schema that the API server gets holds each rule at its scope, with its message."""
    for rule in rules_of(kind):
        node = schema_of(kind)
        for step in rule.scope.split(".") if rule.scope else ():
            node = node["properties"][step.removesuffix("[*]")]
            node = node["items"] if step.endswith("[*]") else node
        assert rule.to_validation() in node["x-kubernetes-validations"]
        assert rule.is_transition == ("oldSelf" in rule.cel)


def test_a_scope_names_every_item_of_a_list() -> None:
    """`[*]` stands for each item, whose path has its place; absent values are passed over."""
    value = {"spec": {"services": [{"redis": 1}, {}, {"redis": 3}]}}
    assert [*matches("spec.services[*].redis", value, None)] == [("spec.services[0].redis", 1, None), ("spec.services[2].redis", 3, None)]
    assert [*matches("spec.absent.key", value, None)] == []


def test_a_rule_may_speak_of_a_field_below_its_scope() -> None:
    """A rule on a field's absence names that field in the API server's answer too."""
    rule = Rule(scope="spec", cel="!has(self.old)", message="m", holds=lambda value, _old: "old" not in value, field="old")
    assert rule.to_validation() == {"rule": "!has(self.old)", "message": "m", "fieldPath": ".old"}
