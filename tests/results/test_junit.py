"""junit.xml: well-formed whatever a model says, counts that add up, a fixed order."""

import io
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.items import Item, ItemResult, Verdict
from engine.records import Record, record_of
from engine.results.junit import write_junit
from engine.results.summary import RunIdentity, SummaryBuilder

PlanOf = Callable[..., Any]
ResultOf = Callable[..., ItemResult]


def document(plan: Any, records: list[Record], identity: RunIdentity) -> ET.Element:
    """Return the parsed document of `records`."""
    builder = SummaryBuilder(identity, plan)
    for record in records:
        builder.add(record)
    out = io.BytesIO()
    write_junit(out, builder.build(), ((plan.items[record.index], record) for record in records))
    return ET.fromstring(out.getvalue())  # noqa: S314 - our own document


@settings(max_examples=80)
@given(text=st.text(st.characters(), max_size=60), verdict=st.sampled_from([Verdict.FAIL, Verdict.ERROR]))
def test_any_text_is_well_formed(plan_of: PlanOf, result_of: ResultOf, text: str, verdict: Verdict) -> None:
    """Any text, in names and in messages, gives a document that a strict parser reads."""
    plan = plan_of(scenarios=[f"s{text}"], providers=[f"p{text}"])
    root = document(
        plan,
        [
            record_of(result_of(plan.items[0], verdict, text=f"]]>{text}<![CDATA[")),
        ],
        RunIdentity(job=f"j{text}"),
    )
    assert root.find("testsuite/testcase/") is not None


def test_suites_and_cases(plan_of: PlanOf, result_of: ResultOf) -> None:
    """A suite a scenario, a case an item; failures, errors and skipped apart, in attributes and in children."""
    plan = plan_of(scenarios=("a", "b"), providers=("p", "q"), trials=1)
    verdicts = (Verdict.PASS, Verdict.FAIL, Verdict.ERROR, Verdict.SKIPPED)
    records = [record_of(result_of(item, verdict, text="why")) for item, verdict in zip(plan.items, verdicts, strict=True)]
    root = document(plan, records, RunIdentity(run="r1", job="eval", commit="4f1c", ref="main"))
    assert root.attrib == {"name": "eval", "tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": "0.060"}
    assert [(suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("errors")) for suite in root] == [
        ("a", "2", "1", "0"),
        ("b", "2", "0", "1"),
    ]
    cases = [(case.get("classname"), case.get("name"), [child.tag for child in case]) for case in root.iter("testcase")]
    assert cases == [("a", "p/1", []), ("a", "q/1", ["failure"]), ("b", "p/1", ["error"]), ("b", "q/1", ["skipped"])]
    failure = root.find(".//failure")
    assert failure is not None
    assert (failure.get("message"), failure.get("type")) == ("turn 1: content_includes: why", "content_includes")


def test_suites_name_commit_ref_and_cost(plan_of: PlanOf, result_of: ResultOf) -> None:
    """Each suite's properties say which commit and ref it tested and what it cost."""
    plan = plan_of(scenarios="a", trials=2)
    items: tuple[Item, ...] = plan.items
    root = document(plan, [record_of(result_of(item)) for item in items], RunIdentity(commit="4f1c", ref="main"))
    assert {entry.get("name"): entry.get("value") for entry in root.iter("property")} == {"commit": "4f1c", "ref": "main", "cost": "0.0004"}
