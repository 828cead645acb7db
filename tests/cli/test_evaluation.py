"""`arena eval`: where the bundle is, what a filter means, how an attempt ends."""

import asyncio
from pathlib import Path

import pytest

import arena.cli
from arena.cli.selecting import locate
from arena.errors import UsageError
from arena.evaluation import Evaluation, EvaluationRequest
from engine.bundle.starter import starter_files
from engine.items import Item, ItemError, ItemResult, Verdict
from foundation.clock import SystemClock


def starter(folder: Path) -> Path:
    """Write the starter bundle."""
    for name, content in starter_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_a_config_below_the_current_folder_belongs_to_that_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a run, whose bundle is the whole repository, so that a config may name files beside its own folder."""
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "nightly.yaml").touch()
    monkeypatch.chdir(tmp_path)
    assert locate(Path("evals/nightly.yaml")) == (tmp_path, "evals/nightly.yaml")


def test_a_config_elsewhere_is_its_own_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A config file that is not below the current folder makes its own folder the bundle."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "nightly.yaml").touch()
    monkeypatch.chdir(tmp_path / "b")
    assert locate(tmp_path / "a" / "nightly.yaml") == (tmp_path / "a", "nightly.yaml")


def test_a_bundle_that_is_not_there(tmp_path: Path) -> None:
    """A path that names nothing is a usage error."""
    with pytest.raises(UsageError, match="cannot find bundle"):
        locate(tmp_path / "absent")


@pytest.mark.parametrize("option", ["--scenario", "--provider"])
def test_an_empty_filter_is_refused(tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty shell variable as filter runs nothing, and certainly not everything."""
    with pytest.raises(SystemExit) as ended:
        arena.cli.main(["eval", str(starter(tmp_path)), option, ""])
    assert ended.value.code == 2
    assert f"cannot use {option}" in capsys.readouterr().err


class Flaky:
    """A runner whose items fail so many times before they pass; `retryable` is what it says of a failure."""

    def __init__(self, failures: int, *, retryable: bool = True) -> None:
        self.failures = failures
        self.retryable = retryable
        self.attempts: list[int] = []

    async def run(self, item: Item, *, attempt: int = 1) -> ItemResult:
        """Fail as long as failures are left."""
        self.attempts.append(attempt)
        now = SystemClock().now()
        if attempt > self.failures:
            return ItemResult(item, Verdict.PASS, now, now, attempt=attempt)
        return ItemResult(item, Verdict.ERROR, now, now, attempt=attempt, error=ItemError("provider.timeout", "slow"), retryable=self.retryable)

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("runner", "attempts", "verdict"),
    [
        pytest.param(Flaky(1), [1, 2], Verdict.PASS, id="an attempt that may end better is made again"),
        pytest.param(Flaky(9), [1, 2, 3], Verdict.ERROR, id="three attempts at most"),
        pytest.param(Flaky(9, retryable=False), [1], Verdict.ERROR, id="what will not end better is not tried again"),
    ],
)
def test_attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: Flaky, attempts: list[int], verdict: Verdict) -> None:
    """`arena eval` tries an item as often as a worker would."""
    monkeypatch.setattr("arena.evaluation.ItemRunner", lambda *_: runner)
    monkeypatch.setattr("arena.evaluation.retry_delay_s", lambda **_: 0.0)
    with Evaluation(EvaluationRequest(starter(tmp_path), "config.arena.yaml", scenarios=("refund-window",), providers=("steady",))) as evaluation:
        asyncio.run(evaluation.run())
        (record,) = evaluation.results.records()
    assert (runner.attempts, record.verdict) == (attempts, verdict)


def test_a_defect_is_an_error_and_no_verdict(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An exception that is none of ours ends with 3 and its traceback: Python's own 1 would read as a failed verdict."""
    monkeypatch.setattr("arena.cli._run", lambda _: 1 // 0)
    with pytest.raises(SystemExit) as ended:
        arena.cli.main(["eval"])
    assert ended.value.code == 3
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_refused_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is asked of a model, and paid for, whose results have nowhere to go."""
    (tmp_path / "taken").touch()
    monkeypatch.setattr("arena.evaluation.ItemRunner", lambda *_: 1 // 0)
    with pytest.raises(SystemExit) as ended:
        arena.cli.main(["eval", str(starter(tmp_path)), "--out", str(tmp_path / "taken" / "out")])
    assert ended.value.code == 2
    assert f"cannot write results to '{tmp_path / 'taken' / 'out'}'" in capsys.readouterr().err


def test_results_are_printed_where_they_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A disk that is full in the end takes the files, and not what was paid for."""
    (tmp_path / "out" / "summary.json").mkdir(parents=True)
    with pytest.raises(SystemExit) as ended:
        arena.cli.main(["eval", str(starter(tmp_path)), "--out", str(tmp_path / "out")])
    said = capsys.readouterr()
    assert (ended.value.code, said.out.splitlines()[-1][:23]) == (2, "passed  6 of 6 items  p")
    assert "cannot write results" in said.err


def test_a_failed_check_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The author's message says what must be; under it stands what was, since nobody else shows it to the person at the keyboard."""
    answers = starter(tmp_path) / "mock" / "brisk.yaml"
    answers.write_text(answers.read_text().replace("30 days", "a month"))
    with pytest.raises(SystemExit) as ended:
        arena.cli.main(["eval", str(tmp_path), "--provider", "brisk"])
    assert ended.value.code == 1
    lines = "Must tell the refund window of the policy\n    not found: '30 days' in 'You have a month from delivery.'\n"
    assert lines in capsys.readouterr().out


def test_a_judge_that_fails_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What kept a check from being evaluated stands at the check, and not at its item as well."""
    root = starter(tmp_path)
    scenario = root / "scenarios" / "order-status.scenario.yaml"
    scenario.write_text(scenario.read_text() + "    - {type: llm_judge, params: {criteria: Is it kind?}}\n")
    config = root / "config.arena.yaml"
    config.write_text(config.read_text() + "  judges: [{name: tone, provider: brisk}]\n")
    with pytest.raises(SystemExit) as ended:
        arena.cli.main(["eval", str(root), "--provider", "brisk", "--scenario", "order-status"])
    assert ended.value.code == 3
    printed = capsys.readouterr().out
    assert printed.count("conversation: llm_judge: ") == printed.count("error  order-status x brisk") == printed.count("… and 1 more like this") == 1
    assert "cannot evaluate check" not in printed
