"""Annotations and the step summary: nothing that a model says is a command, and GitHub takes what is written."""

from pathlib import Path
from typing import Any

import pytest

from engine.errors import OutputUnavailable
from engine.results.github import MAX_ANNOTATIONS, MAX_SUMMARY_BYTES, annotations, append_step_summary


def item(message: str = "no", scenario: str = "s") -> dict[str, Any]:
    """Return a failed item with one failed check."""
    check = {"scope": "turn", "turn": 1, "type": "contains", "name": "", "passed": False, "message": message, "explanation": "", "error": ""}
    return {"item": f"{scenario}/p/1", "scenario": scenario, "verdict": "fail", "error": None, "checks": {"results": [check]}}


def test_an_annotation_stands_at_its_scenario() -> None:
    """File and line are the scenario's; people count turns from 1."""
    (line,) = annotations([item()], lambda scenario: (f"scenarios/{scenario}.yaml", 3))
    assert line == "::error file=scenarios/s.yaml,line=3,title=fail%3A s/p/1::turn 2: contains: no"


def test_without_a_place_there_is_none() -> None:
    """A scenario that is not in the checkout has an annotation without a file."""
    (line,) = annotations([item()], lambda _scenario: None)
    assert line.startswith("::error title=fail%3A s/p/1::")


@pytest.mark.parametrize("text", ["a\n::set-output name=x::y", "a\r\n::add-mask::b", "100%0A::error::z", "x::warning::y"])
def test_what_a_model_says_is_no_command(text: str) -> None:
    """A line of a message cannot begin one of its own."""
    (line,) = annotations([item(text)], lambda _scenario: None)
    assert len(line.splitlines()) == 1
    assert line.startswith("::error ")
    assert line.partition("::turn 2: contains: ")[2].replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%") == text


def test_a_step_shows_ten() -> None:
    """GitHub shows no more of a step, so no more are written."""
    assert len(list(annotations([item() for _ in range(50)], lambda _scenario: None))) == MAX_ANNOTATIONS


def test_a_summary_is_cut_at_a_heading(tmp_path: Path) -> None:
    """What is too large for GitHub ends before a heading, and says that it ends."""
    path = tmp_path / "summary"
    append_step_summary(path, b"# one\n" + b"".join(b"\n## part\n" + b"x" * 1000 for _ in range(2000)))
    written = path.read_bytes()
    assert len(written) <= MAX_SUMMARY_BYTES
    assert written.startswith(b"# one\n")
    assert written.endswith(b"x\n\nThe rest is cut: a step summary holds one megabyte.\n")


def test_a_summary_is_appended(tmp_path: Path) -> None:
    """A step may have written before."""
    path = tmp_path / "summary"
    append_step_summary(path, b"one\n")
    append_step_summary(path, b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"


def test_a_summary_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The error names the file."""
    with pytest.raises(OutputUnavailable, match=r"cannot write step summary '.*missing/summary'"):
        append_step_summary(tmp_path / "missing" / "summary", b"x")
