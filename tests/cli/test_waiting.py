"""`arena run --wait`: how long it waits, and what it says of a waiting that may have no end."""

import io
import signal
from datetime import timedelta
from typing import Any

import pytest

import arena.cli
from arena.cli.following import PatienceOver, at_most
from arena.cli.progress import ProgressLine
from reconcile.cluster.port import KINDS
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
