"""ctrl-c and SIGTERM of `arena eval`: what has ended and was paid for is kept, there is no verdict, and nothing is left running."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import arena.cli
from engine.bundle.starter import starter_files
from engine.items import Item, ItemResult, Verdict
from foundation.clock import SystemClock
from tests.e2e.installation import ARENA, clean_environment, until
from tests.outside.reaching import call, write_bundle
from tests.processes import told

DEADLINE_S = 30.0


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Put back what a process does at a signal: after the first one a stopped evaluation leaves that to the system."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


class Interrupted:
    """A runner of which two items pass; at the third somebody presses ctrl-c, and it never ends."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number
        self.begun = 0
        self.is_closed = False

    async def run(self, item: Item, *, attempt: int = 1) -> ItemResult:
        """Pass, or wait for what never comes."""
        self.begun += 1
        if self.begun > 2:
            signal.raise_signal(self.number)
            await asyncio.Event().wait()
        now = SystemClock().now()
        return ItemResult(item, Verdict.PASS, now, now, attempt=attempt, cost_usd=0.25)

    async def close(self) -> None:
        """Take note."""
        self.is_closed = True


def stopped(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str, number: signal.Signals = signal.SIGINT) -> int | str | None:
    """Run the starter bundle until it is stopped, and return the exit status."""
    for name, content in starter_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    runner = Interrupted(number)
    monkeypatch.setattr("arena.evaluation.ItemRunner", lambda *_: runner)
    with pytest.raises(SystemExit) as ended:
        arena.cli.main(["eval", str(folder), "-j", "1", *words])
    assert runner.is_closed
    return ended.value.code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_has_ended_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals) -> None:
    """The table is printed, and in place of a verdict the last line says how much of the whole it is."""
    assert stopped(tmp_path, monkeypatch, number=number) == 130
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("SCENARIO")
    assert said[-1] == "stopped: 2 of 6 items had ended  2 passed  at least $0.5000"


def test_what_has_ended_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--out` has all files of a whole evaluation; what has not ended is skipped, in no rate, and the summary says why."""
    assert stopped(tmp_path, monkeypatch, "--out", str(tmp_path / "out")) == 130
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    lines = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    assert (summary["verdict"], summary["stopped"], summary["drainedItems"], summary["costUsd"]) == ("cancelled", "cancelled", 4, 0.5)
    assert [line["verdict"] for line in lines] == ["pass", "pass", *["skipped"] * 4]
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"results.jsonl", "summary.json", "junit.xml", "report.md"}


def test_what_was_under_way_makes_the_cost_partial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that was cut off may be charged for; an item that was never begun costs nothing."""
    assert stopped(tmp_path, monkeypatch, "--out", str(tmp_path / "out")) == 130
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    lines = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    assert summary["costIsPartial"] is True
    assert ["costIsPartial" in line for line in lines] == [False, False, True, False, False, False]


def test_json_gives_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Stdout stays one document; the line about the stop goes where progress goes."""
    assert stopped(tmp_path, monkeypatch, "-o", "json") == 130
    said = capsys.readouterr()
    assert json.loads(said.out)["summary"]["verdict"] == "cancelled"
    assert said.err == "stopped: 2 of 6 items had ended  2 passed  at least $0.5000\n"


STUBBORN = """
import asyncio
from arena.cli.stopping import run_until_stopped

async def work():
    print("begun", flush=True)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("cancelled", flush=True)

asyncio.run(run_until_stopped(work()))
"""


def test_the_second_signal_ends_at_once(tmp_path: Path) -> None:
    """Nobody waits for what does not close."""
    process = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True, env=clean_environment(tmp_path))
    assert process.stdout is not None
    with process.stdout:
        for word in ("begun\n", "cancelled\n"):
            assert process.stdout.readline() == word
            process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_S) == -signal.SIGINT


def is_running(seconds: str) -> bool:
    """Say whether a `sleep` of so many seconds runs on this machine, in whatever namespace."""
    return any(words.endswith(f"sleep\0{seconds}\0".encode()) for _, words in told("cmdline"))


def test_no_process_of_a_tool_stays(tmp_path: Path) -> None:
    """A tool that is running ends with the evaluation that is stopped."""
    seconds = f"600.{os.getpid()}"
    write_bundle(tmp_path, {"wait": {"mode": "exec", "timeout_ms": 600_000, "exec": {"command": "sleep", "args": [seconds]}}}, [call("wait")])
    words = [*ARENA, "eval", str(tmp_path), "--allow-code-unconfined"]
    with subprocess.Popen(words, env=clean_environment(tmp_path), stdout=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: is_running(seconds) or process.poll() is not None, "the tool to run")
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
    assert (process.returncode, said.splitlines()[-1]) == (130, "stopped: 0 of 1 item had ended  0 passed")
    until(lambda: not is_running(seconds), "the tool to be gone")
