"""The state directory: private files, one owner, an address that others find."""

import json
import os
import stat
from pathlib import Path

import pytest

from arena.errors import ServerUnreachable, StateLocked, StateUnusable
from arena.local.git_credential import answer
from arena.local.state import StateDirectory


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    """Return a state directory that is there."""
    found = StateDirectory(tmp_path / "state")
    found.prepare()
    return found


def test_everything_is_private(state: StateDirectory) -> None:
    """Folders are 0700 and the token is 0600, whatever the umask."""
    state.token()
    state.publish("http://127.0.0.1:1", "")
    with state.lock():
        for path in (state.root, *state.root.rglob("*")):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_token_is_made_once(state: StateDirectory) -> None:
    """The token stays over restarts, is long, and is another one in another directory."""
    token = state.token()
    assert len(token) >= 40
    assert StateDirectory(state.root).token() == token == state.read_token()
    assert state.installation() != token
    other = StateDirectory(state.root.parent / "other")
    other.prepare()
    assert other.token() != token


def test_second_owner_is_told_where_the_first_listens(state: StateDirectory) -> None:
    """The lock names the server that holds it; before that one has an address, it says to wait."""
    with state.lock():
        with pytest.raises(StateLocked, match="another process holds it") as early, StateDirectory(state.root).lock():
            pass
        state.publish("http://127.0.0.1:7", "")
        with (
            pytest.raises(StateLocked, match=rf"running already at http://127.0.0.1:7 \(pid {os.getpid()}\)") as late,
            StateDirectory(state.root).lock(),
        ):
            pass
    assert "wait" in early.value.hint
    assert "--state" in late.value.hint
    with state.lock():
        pass


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"url": "x"}', b'{"url": "x", "pid": null}'])
def test_damaged_address_is_no_address(state: StateDirectory, content: bytes) -> None:
    """A file that is not what a server writes counts as no server."""
    (state.root / "server.json").write_bytes(content)
    with pytest.raises(ServerUnreachable, match="none runs") as refused:
        state.address()
    assert "arena up" in refused.value.hint


def test_withdrawn_address_is_gone(state: StateDirectory) -> None:
    """After a clean stop nobody finds an address; withdrawing twice is nothing."""
    state.publish("http://127.0.0.1:7", "unix:///q")
    assert (state.address().url, state.address().queue, state.address().pid) == ("http://127.0.0.1:7", "unix:///q", os.getpid())
    state.withdraw()
    state.withdraw()
    with pytest.raises(ServerUnreachable):
        state.address()


def test_address_of_a_killed_server_is_no_address(state: StateDirectory) -> None:
    """A server that was killed leaves its address: neither a command nor git sends the token to whoever listens there by now."""
    state.token()
    state.publish("http://127.0.0.1:7", "")
    asked = ["protocol=http\n", "host=127.0.0.1:7\n"]
    assert "password=" in answer("get", state, asked)
    record = json.loads((state.root / "server.json").read_bytes())
    for change in ({"pid": 2**22 + 1}, {"started": record["started"] - 1}):
        (state.root / "server.json").write_text(json.dumps({**record, **change}))
        with pytest.raises(ServerUnreachable, match="none runs"):
            state.address()
        assert answer("get", state, asked) == ""


@pytest.mark.parametrize("content", ["", "\n", "short\n", "two\nlines of words that are long enough\n"])
def test_damaged_token_is_refused(state: StateDirectory, content: str) -> None:
    """A token that cannot be one of ours opens nothing and starts nothing; the remedy names the file."""
    (state.root / "token").write_text(content)
    with pytest.raises(StateUnusable, match="'token' is damaged") as refused:
        state.token()
    assert str(state.root / "token") in refused.value.hint


def test_path_through_a_file_is_unusable(tmp_path: Path) -> None:
    """A state directory under a file is refused with a remedy."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(StateUnusable, match="not a directory") as refused:
        StateDirectory(tmp_path / "file" / "state").prepare()
    assert "--state" in refused.value.hint


def test_git_gets_no_answer_without_a_server(tmp_path: Path) -> None:
    """Without a server git asks its next helper."""
    assert answer("get", StateDirectory(tmp_path), ["protocol=http\n", "host=127.0.0.1:7\n"]) == ""
