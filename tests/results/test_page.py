"""The report page: everything foreign is text, nothing is fetched, and what is left out is said."""

import io
import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from engine.items import ItemResult, Verdict
from engine.results.collected import CollectedResults
from engine.results.page import MAX_FAILED, write_page
from engine.results.reader import read_items, read_summary
from engine.results.summary import RunIdentity
from tests.results.conftest import PlanOf, ResultOf

HOSTILE = "</div><script>alert(1)</script><img src=x onerror=alert(1)> {{ 7*7 }} \x00 \ud800 \u202e \"'&"


class Tags(HTMLParser):
    """Collects elements and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep one element."""
        self.found.append((tag, dict(attrs)))


Finished = Callable[..., Path]


@pytest.fixture
def finished(plan_of: PlanOf, result_of: ResultOf, tmp_path: Path) -> Finished:
    """Return a function that writes the results of a plan, one verdict an item, all items saying `text`."""

    def write(verdicts: list[Verdict], text: str = "hello", identity: RunIdentity | None = None) -> Path:
        plan = plan_of(scenarios=[f"s{i}" for i in range(len(verdicts))])
        with CollectedResults(identity or RunIdentity(), plan) as results:
            for item, verdict in zip(plan.items, verdicts, strict=True):
                result: ItemResult = result_of(item, verdict, text=text)
                result.messages.append({"role": "assistant", "content": text, "toolCalls": [{"id": "1", "name": text, "args": {"q": text}}]})
                results.add(result)
            results.write_files(tmp_path)
        return tmp_path

    return write


def page_of(directory: Path) -> str:
    """Return the page of finished results."""
    out = io.BytesIO()
    write_page(out, read_summary(directory), read_items(directory))
    return out.getvalue().decode("utf-8", "strict")


def test_what_a_model_says_is_text(finished: Finished) -> None:
    """Markup, templates, control characters and half surrogates of a model stay words, wherever they stand."""
    page = page_of(finished([Verdict.FAIL, Verdict.ERROR, Verdict.PASS], HOSTILE))
    tags = Tags()
    tags.feed(page)
    names = {name for name, _ in tags.found}
    assert not names & {"script", "img", "iframe", "object", "link", "form", "a"}
    assert not [value for _, attributes in tags.found for name, value in attributes.items() if name.startswith("on") or name in {"src", "href"}]
    assert "{{ 7*7 }}" in page
    assert "49" not in page.partition("{{ 7*7 }}")[2][:20]


def test_the_page_needs_nothing_else(finished: Finished) -> None:
    """No address is in it, and its own policy forbids scripts and requests."""
    page = page_of(finished([Verdict.PASS]))
    assert "http://" not in page
    assert "https://" not in page
    assert "default-src 'none'" in page


def test_the_page_shows_the_verdict_and_its_commit(finished: Finished) -> None:
    """Run, commit and interval stand in the head, failed items with their conversation below."""
    page = page_of(finished([Verdict.PASS, Verdict.FAIL], "the answer", RunIdentity(run="r-1", commit="c0ffee", job="nightly")))
    for text in ("r-1", "c0ffee", "nightly", "50.0 %", "s1/p/1", "the answer", "content_includes"):
        assert text in page


def test_a_mocked_run_says_so(finished: Finished) -> None:
    """MOCKED is in the page of a mocked run, and in no other."""
    assert "MOCKED" not in page_of(finished([Verdict.PASS]))
    assert "MOCKED" in page_of(finished([Verdict.PASS], identity=RunIdentity(mocked=True)))


def test_what_is_left_out_is_said(finished: Finished) -> None:
    """Only the first failed items carry their conversations, and the page says how many more there are."""
    page = page_of(finished([Verdict.FAIL] * (MAX_FAILED + 3)))
    assert page.count("<details") == MAX_FAILED
    assert "and 3 more: see results.jsonl" in page


@pytest.mark.parametrize("verdicts", [[Verdict.SKIPPED], [Verdict.ERROR], [Verdict.PASS, Verdict.SKIPPED]], ids=["skipped", "error", "mixed"])
def test_a_page_without_rates(finished: Finished, verdicts: list[Verdict]) -> None:
    """Nothing executed, nothing priced, no latency: the page is written all the same, and no unknown value reads 0."""
    page = page_of(finished(verdicts))
    assert "None" not in page
    assert "nan" not in page.lower().replace("finance", "")


def test_equal_results_give_equal_pages(finished: Finished) -> None:
    """The page holds nothing but the results."""
    directory = finished([Verdict.PASS, Verdict.FAIL])
    assert page_of(directory) == page_of(directory)
    assert json.loads((directory / "summary.json").read_bytes())["run"] is None


def test_a_failed_item_says_how_it_is_run_again(finished: Finished) -> None:
    """Beside each failed item stands the command that runs it again; a run without one shows none."""
    assert "again: <code>arena eval . --scenario s1 --provider p</code>" in page_of(finished([Verdict.PASS, Verdict.FAIL]))
    assert "again:" not in page_of(finished([Verdict.PASS]))
