"""`arena run --wait`: how long it waits, and what it says of a waiting that may have no end."""

import contextlib
import io
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import arena.cli
from arena.cli.client import Client
from arena.cli.following import PatienceOver, at_most
from arena.cli.progress import ProgressLine
from arena.cli.runs import wait_for
from reconcile.cluster.port import KINDS, ResourceKind
from tests.e2e.bundles import bundle
from tests.e2e.installation import Namespace, ready, until

CAUSE = "provider 'gpt' names Secret 'openai', which does not exist"
ADVICE = "  it waits until that is there; to end it: arena cancel nightly-x -n team\n"


def waiting(reason: str, message: str = CAUSE) -> dict[str, Any]:
    """Return a run that waits."""
    conditions = [{"type": "Ready", "status": "False", "reason": reason, "message": message}]
    return {"metadata": {"name": "nightly-x", "namespace": "team"}, "status": {"phase": "Pending", "conditions": conditions}}


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        pytest.param(io.StringIO(), f"  {CAUSE}\n{ADVICE}  gone\n", id="a log"),
        pytest.param(Terminal(), f"\r\x1b[K  {CAUSE}\n{ADVICE}\r\x1b[K  gone\r\x1b[K", id="a terminal, where the cause stays"),
    ],
)
def test_a_waiting_without_end_says_how_to_end_it(stream: io.StringIO, said: str) -> None:
    """What it waits for is said, and once how to end that."""
    line = ProgressLine(stream)
    for run in (waiting("JobCreationFailed"), waiting("JobCreationFailed"), waiting("JobCreationFailed", "gone")):
        line.show(run)
    line.clear()
    assert stream.getvalue() == said


def test_a_waiting_that_passes_by_itself_is_only_named() -> None:
    """A snapshot that is being exported needs nobody's advice."""
    stream = io.StringIO()
    ProgressLine(stream).show(waiting("ProjectNotReady", "project 'support' is being read"))
    assert stream.getvalue() == "  project 'support' is being read\n"


def test_patience_ends() -> None:
    """The block is left when the time is over, whatever it waits in, and the process has its own handler again."""
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(PatienceOver), at_most(timedelta(milliseconds=20)):
        signal.pause()
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_alarm_leaves_nothing_whenever_it_rings() -> None:
    """Before the block begins, and when it has just ended, the process has its own handler again too."""
    before = signal.getsignal(signal.SIGALRM)
    for _ in range(300):
        with contextlib.suppress(PatienceOver), at_most(timedelta(microseconds=1)):
            pass
        assert signal.getsignal(signal.SIGALRM) is before


class Ringing(io.StringIO):
    """A stream on which the alarm rings while something is written."""

    def write(self, text: str) -> int:
        """Ring."""
        written = super().write(text)
        signal.raise_signal(signal.SIGALRM)
        return written


class Ended(Client):
    """A server whose run has ended."""

    def get(self, kind: ResourceKind, namespace: str, name: str) -> dict[str, Any]:
        """Return it."""
        del kind
        summary = {"verdict": "pass", "passRate": "100.0", "totalItems": "1", "passedItems": "1"}
        status = {"phase": "Succeeded", "source": {"commit": "4f1c9e2a7b10"}, "plan": {"items": 1}, "result": {"summary": summary}}
        return {"metadata": {"name": name, "namespace": namespace}, "spec": {}, "status": status}


def test_a_run_that_ends_as_the_patience_does_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its verdict is the exit status, not that nobody waited for it."""
    monkeypatch.setattr("sys.stderr", stream := Ringing())
    assert wait_for(Ended("http://127.0.0.1:1", "t"), tmp_path, waiting("ProjectNotReady"), timedelta(hours=1)) == 0
    assert stream.getvalue() == "nightly-x · commit 4f1c9e2a7b10 · 1 item · 1 worker\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--timeout", "5m"], "cannot use --timeout without --wait", id="nobody waits"),
        pytest.param(["--wait", "--timeout", "5"], "cannot wait for '5': not a duration", id="without a unit"),
        pytest.param(["--wait", "--timeout", "0s"], "cannot wait for '0s': it is no time at all", id="nothing"),
    ],
)
def test_what_is_no_patience_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before a run is started."""
    with pytest.raises(SystemExit) as ended:
        arena.cli.main(["run", "nightly", *words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.e2e
def test_the_waiting_ends_and_not_the_run(namespace: Namespace) -> None:
    """A run that waits for a Secret is left alone after the time, with an exit status of its own; who looks at it hears what is missing, and how to end it."""
    checkout = namespace.project()
    checkout.commit(bundle())
    checkout.push()
    provider = {"metadata": {"name": "gpt"}, "spec": {"type": "openai", "model": "m", "credential": {"secretRef": {"name": "absent"}}}}
    namespace.client.create(KINDS["Provider"], namespace.name, provider)
    namespace.job(spec={"providers": {"default": [{"providerRef": {"name": "gpt"}}]}})
    done = namespace.arena("run", "eval", "--wait", "--timeout", "1s")
    assert (done.code, done.out) == (124, "")
    name = done.err.split()[-3]
    assert done.err.endswith(f"\n  to stop it: arena cancel {name} -n {namespace.name}\n")
    found = until(
        lambda: next((run for run in namespace.runs() if run["metadata"]["name"] == name and is_stuck(run)), None), "the run to look for it"
    )
    said = io.StringIO()
    ProgressLine(said).show(found)
    assert "absent" in said.getvalue()
    assert f"to end it: arena cancel {name} -n {namespace.name}\n" in said.getvalue()


def is_stuck(run: dict[str, Any]) -> bool:
    """Say whether a run waits for what is not there."""
    return ready(run)[0] == "JobCreationFailed"
