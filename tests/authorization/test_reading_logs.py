"""Who reads a run's logs in local mode: `arena logs` asks for the run itself first, as anybody who wants to see it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

import arena.cli
from arena.app import ArenaApp
from arena.authorization.api_access import ApiAccess
from arena.authorization.entrance import Entrance, InTurn
from arena.authorization.failures import Failures
from arena.authorization.local_token import LocalToken
from arena.authorization.token_file import TokenFile
from arena.front_door import not_found
from arena.local.kube_api import kube_api
from arena.local.log_sweep import log_folder
from arena.local.state import StateDirectory
from foundation.clock import FakeClock
from reconcile.cluster.port import ARENA_RUN
from reconcile.cluster.sqlite import SqliteCluster, admission_warnings
from tests.authorization.adapters import entry, write_tokens
from tests.authorization.headers import TOKEN
from tests.gitops.conftest import serving

RUN, LINE = "nightly-1", "worker began"
GIT_ONLY = f"git-{TOKEN}"


def put_log(state: StateDirectory) -> None:
    """Write a log as a worker of the run does."""
    folder = log_folder(state.logs, "default", RUN)
    folder.mkdir(parents=True)
    (folder / "0.log").write_text(f"{LINE}\n")


@pytest.fixture
async def state(cluster: SqliteCluster, clock: FakeClock, tmp_path: Path) -> AsyncIterator[StateDirectory]:
    """Run the server of a state directory that has one run with a log; it knows a token for git alone beside its own."""
    directory = StateDirectory(tmp_path / "state")
    directory.prepare()
    put_log(directory)
    await cluster.create({"apiVersion": ARENA_RUN.api_version, "kind": ARENA_RUN.kind, "metadata": {"name": RUN, "namespace": "default"}, "spec": {}})
    tokens = TokenFile(write_tokens(tmp_path / "tokens.yaml", entry("ci", GIT_ONLY, ["read", "push"], ["*/*"])), clock)
    access = ApiAccess(Entrance(InTurn([LocalToken(directory.token()), tokens]), Failures(clock)))
    kube = kube_api(cluster, warnings=admission_warnings, stopping=asyncio.Event())
    async with serving(ArenaApp(git=not_found, hooks=not_found, kube=kube, access=access)) as address:
        directory.publish(f"http://{address}", "")
        yield directory


def read_logs(state: StateDirectory) -> int:
    """Run `arena logs` and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        arena.cli.main(["logs", RUN, "--state", str(state.root)])
    return int(ended.value.code or 0)


async def test_the_token_reads_logs(state: StateDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever has the installation's token reads them."""
    assert await asyncio.to_thread(read_logs, state) == 0
    assert LINE in capsys.readouterr().out


@pytest.mark.parametrize(
    ("token", "event", "said"),
    [
        pytest.param(GIT_ONLY, "action refused", "cannot get arenaruns 'default/nightly-1'", id="a token that is for git alone"),
        pytest.param(f"wrong-{TOKEN}", "login failed", "cannot log in", id="a token that nobody knows"),
    ],
)
async def test_others_do_not(state: StateDirectory, capsys: pytest.CaptureFixture[str], token: str, event: str, said: str) -> None:
    """Whoever may not get the run reads no log of it, and the refusal is logged with the action that it was."""
    (state.root / "token").write_text(token)
    with capture_logs() as logs:
        assert await asyncio.to_thread(read_logs, state) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert [(entry["event"], entry["action"]) for entry in logs if "action" in entry] == [(event, "get arenaruns 'default/nightly-1'")]
