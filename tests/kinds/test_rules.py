"""Rules that no type can state: each predicate holds and fails as its CEL says."""

from typing import Any

import pytest

from reconcile.errors import Invalid
from reconcile.kinds.admission import admit, admit_status
from reconcile.kinds.catalog import CATALOG
from reconcile.kinds.rule import Rule, matches
from reconcile.kinds.rules import rules_of
from reconcile.kinds.schema import schema_of
from tests.kinds.rule_examples import EXAMPLES, RUN, STATUS_FIELDS, an_object


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
