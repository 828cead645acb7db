"""`arena report`, `arena mocks generate` and `arena eval -o github`: from finished results to pages, tables, mocks and annotations."""

import csv
import io
import json
from pathlib import Path

import pytest

import arena.cli
from engine.bundle.starter import starter_files
from gitops.content import ContentVolume

Captured = pytest.CaptureFixture[str]


def starter(folder: Path) -> Path:
    """Write the starter bundle."""
    for name, content in starter_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def arena_exits(*words: str | Path) -> int:
    """Run a command in this process and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        arena.cli.main([str(word) for word in words])
    return int(ended.value.code or 0)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return a folder with the starter bundle."""
    return starter(tmp_path / "bundle")


@pytest.fixture
def results(bundle: Path, tmp_path: Path, capsys: Captured) -> Path:
    """Return the folder of the starter bundle's results."""
    assert arena_exits("eval", bundle, "--out", tmp_path / "results") == 0
    capsys.readouterr()
    return tmp_path / "results"


def transcripts(document: str) -> dict[str, object]:
    """Return what each scenario's first item said."""
    said: dict[str, object] = {}
    for item in json.loads(document)["items"]:
        words = [(message["role"], message.get("content"), [call["args"] for call in message.get("toolCalls") or []]) for message in item["messages"]]
        said.setdefault(item["scenario"], words)
    return said


def test_a_page_of_a_folder(results: Path, tmp_path: Path) -> None:
    """The page is one file, written whole."""
    assert arena_exits("report", results, "--out", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "refund-window" in page


@pytest.mark.parametrize(("rows", "least"), [("items", 6), ("checks", 12)])
def test_a_table_on_stdout(results: Path, capsys: Captured, rows: str, least: int) -> None:
    """CSV goes where a pipe can take it."""
    assert arena_exits("report", results, "-f", "csv", "--rows", rows) == 0
    assert len(list(csv.DictReader(io.StringIO(capsys.readouterr().out)))) >= least


def test_results_of_a_run(results: Path, tmp_path: Path, capsys: Captured) -> None:
    """A run of this installation is found by its name, also when nothing is running."""
    directory = ContentVolume(tmp_path / "state" / "content").run("team", "nightly-1")
    directory.parent.mkdir(parents=True)
    results.rename(directory)
    assert arena_exits("report", "nightly-1", "-n", "team", "--state", tmp_path / "state", "-f", "csv") == 0
    assert "refund-window" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["absent", "../escape", "/nowhere"])
def test_results_that_are_not_there(tmp_path: Path, capsys: Captured, name: str) -> None:
    """A name that is neither a folder nor a run is a usage error, and no path leaves the content volume."""
    assert arena_exits("report", name, "--state", tmp_path) == 2
    assert f"cannot find results '{name}'" in capsys.readouterr().err


def test_a_mock_repeats_what_was_said(bundle: Path, results: Path, tmp_path: Path, capsys: Captured) -> None:
    """The answers of a provider, given to the mock, give the same conversations."""
    assert arena_exits("mocks", "generate", results, "--provider", "steady", "--out", tmp_path / "mock.yaml") == 0
    capsys.readouterr()
    assert arena_exits("eval", bundle, "--provider", "steady", "-o", "json") == 0
    before = transcripts(capsys.readouterr().out)
    for answers in (bundle / "mock").iterdir():
        answers.write_text("defaultResponse: not this\n", encoding="utf-8")
    assert arena_exits("eval", bundle, "--provider", "steady", "--mock-provider", "--mock-config", tmp_path / "mock.yaml", "-o", "json") == 0
    assert transcripts(capsys.readouterr().out) == before


def test_a_workflow_sees_what_failed(bundle: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a GitHub workflow a failed item is an annotation at its scenario's file, and the report is the step's summary."""
    for answers in (bundle / "mock").iterdir():
        answers.write_text("defaultResponse: no idea\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    assert arena_exits("eval", bundle, "-o", "github") == 1
    errors = [line for line in capsys.readouterr().out.splitlines() if line.startswith("::error ")]
    assert errors
    assert errors[0].startswith("::error file=bundle/scenarios/")
    assert (tmp_path / "summary").read_text(encoding="utf-8").startswith("# fail")


def test_outside_of_a_workflow_nothing_is_written(bundle: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a summary file there are annotations only, and a passing bundle has none."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert arena_exits("eval", bundle, "-o", "github") == 0
    assert "::error" not in capsys.readouterr().out
