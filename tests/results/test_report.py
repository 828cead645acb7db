"""report.md: what a person needs, and nothing that foreign text could turn into markup."""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from engine.items import EVAL_PROVIDER, Item, ItemResult, Verdict
from engine.permissions import Permissions
from engine.records import record_of
from engine.results.markdown import code, table
from engine.results.report import write_report
from engine.results.reproduce import repeat_command, reproduce_command
from engine.results.summary import RunIdentity, SummaryBuilder

PlanOf = Callable[..., Any]
ResultOf = Callable[..., ItemResult]


def report(plan: Any, results: list[ItemResult], identity: RunIdentity) -> str:
    """Return the report of `results`."""
    builder = SummaryBuilder(identity, plan)
    records = [record_of(result) for result in results]
    for record in records:
        builder.add(record)
    out = io.BytesIO()
    write_report(out, builder.build(), plan, ((plan.items[record.index], record) for record in records))
    return out.getvalue().decode()


def test_what_a_report_says(plan_of: PlanOf, result_of: ResultOf) -> None:
    """Verdict, commit, rate with interval, matrix, each failed item with its check and the line that reproduces it, cost."""
    plan = plan_of(scenarios=("refund", "greeting"), providers=("claude",))
    text = report(
        plan,
        [result_of(plan.items[0], Verdict.FAIL, text="expected '30 days'"), result_of(plan.items[1])],
        RunIdentity(run="r1", commit="4f1c9e2a", ref="main"),
    )
    for part in (
        "# fail · `r1`",
        "`4f1c9e2a`",
        "50.0 % (9.5 to 90.5), 95 % interval, wilson",
        "| `refund` | ✗ 0/1 |",
        "### `refund/claude/1` · fail",
        "- `turn 1: content_includes: expected '30 days'`",
        "- again: `arena eval . --scenario refund --provider claude`",
        "$0.0004",
    ):
        assert part in text


def test_a_mocked_report_says_so(plan_of: PlanOf, result_of: ResultOf) -> None:
    """MOCKED stands in the headline when every provider was replaced by the mock."""
    plan = plan_of(scenarios="a").with_mock(None)
    assert "MOCKED" in report(plan, [result_of(plan.items[0])], RunIdentity()).splitlines()[0]


@given(text=st.text(st.characters(), max_size=80) | st.sampled_from(["`", "``<b>", "a\\|<img src=x>", "[x](http://e)", "\u202eevil", "@all"]))
def test_foreign_text_stays_in_its_code_span(text: str) -> None:
    """A code span is one line, has no backtick run as long as its fence inside, and in a table no bar."""
    span = code(text)
    match = re.fullmatch(r"(`+)(.*?)\1|–", span, re.DOTALL)
    assert match
    assert "\n" not in span
    if match[1]:
        assert len(match[1]) not in [len(run) for run in re.findall("`+", match[2])]
    assert table(["x"], [[span]]).splitlines()[2].count("|") == 2


HOSTILE = ["`", "``<b>", "a\\|<img src=x>", "[x](http://e)", "<script>", "\n\n# x\n", "![](u)", "https://evil.example", "| a |\n|---|", "&lt;"]


@settings(max_examples=80)
@given(pieces=st.lists(st.sampled_from(HOSTILE) | st.text(max_size=5), max_size=6))
def test_foreign_text_renders_as_code_alone(plan_of: PlanOf, result_of: ResultOf, pieces: list[str]) -> None:
    """Rendered as GitHub would, names and messages of any kind add no tag, no link, no image and no heading to a report."""
    text = "".join(pieces)
    plan = plan_of(scenarios=[f"s{text}"], providers=[f"p{text}"])
    rendered = (
        MarkdownIt("commonmark", {"html": True})
        .enable("table")
        .render(report(plan, [result_of(plan.items[0], Verdict.FAIL, text=text)], RunIdentity(run=text, commit=text)))
    )
    assert set(re.findall(r"<([a-z0-9]+)", rendered)) <= {
        "h1",
        "h2",
        "h3",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "strong",
        "code",
        "ul",
        "li",
        "p",
    }
    assert len(re.findall("<h[1-6]", rendered)) == 4


@pytest.mark.parametrize(
    ("scenario", "mock", "arena_file", "expected"),
    [
        pytest.param("a", False, "config.arena.yaml", "arena eval . --scenario a --provider p --trials 2", id="a later trial"),
        pytest.param("a b;rm", False, "sub/x.yaml", "arena eval sub/x.yaml --scenario 'a b;rm' --provider p --trials 2", id="quoted for the shell"),
        pytest.param(
            "a", True, "config.arena.yaml", "arena eval . --scenario a --provider p --trials 2 --mock-provider --mock-config m.yaml", id="mocked"
        ),
    ],
)
def test_the_line_that_reproduces_an_item(plan_of: PlanOf, scenario: str, mock: bool, arena_file: str, expected: str) -> None:  # noqa: FBT001
    """The command runs the same scenario and provider from a checkout, with the same mock."""
    plan = plan_of()
    plan = plan.with_mock("m.yaml") if mock else plan
    object.__setattr__(plan, "arena_file", arena_file)
    assert reproduce_command(plan, Item(0, scenario, "p", 2)) == expected


@pytest.mark.parametrize(
    ("permissions", "expected"),
    [
        pytest.param(Permissions("confined"), "--allow-code", id="programs"),
        pytest.param(Permissions("confined", code_network=True), "--allow-code --allow-code-network", id="programs on the network"),
        pytest.param(Permissions("unconfined"), "--allow-code --allow-code-unconfined", id="programs anyhow"),
        pytest.param(Permissions(networks=("10.0.0.0/8",)), "--allow-network 10.0.0.0/8", id="a private network"),
    ],
)
def test_the_line_lets_the_bundle_do_what_the_run_let_it_do(plan_of: PlanOf, permissions: Permissions, expected: str) -> None:
    """Without the operator's permissions the same item would be refused."""
    plan = replace(plan_of(), permissions=permissions)
    assert reproduce_command(plan, Item(0, "a", "p", 1)) == f"arena eval . --scenario a --provider p {expected}"


def test_models_of_a_job_have_no_line(plan_of: PlanOf) -> None:
    """`arena eval` of a checkout does not know the models that a job brought, so a line that names one would only be refused."""
    plan = replace(plan_of(), own_providers=False)
    assert (reproduce_command(plan, Item(0, "a", "p", 1)), repeat_command(plan)) == ("", "")


def test_the_line_of_an_eval_names_no_provider(plan_of: PlanOf) -> None:
    """An eval's conversation was saved, so no provider of the bundle holds it."""
    assert reproduce_command(plan_of(), Item(0, "saved", EVAL_PROVIDER, 1)) == "arena eval . --scenario saved"
