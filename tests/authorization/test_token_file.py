"""The file of tokens: its format, what makes it unusable, and what happens when it changes under a running server."""

import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from arena.authorization.errors import NotAllowed, NotAuthenticated, TokenFileInvalid
from arena.authorization.port import Action, Credential, fetch, push
from arena.authorization.token_file import LOOK_S, MAX_BYTES, TokenFile
from foundation.clock import FakeClock
from tests.authorization.adapters import entry, write_tokens
from tests.authorization.headers import TOKEN

FETCH, PUSH = fetch("team", "support"), push("team", "support")
OTHER = f"other-{TOKEN}"
CI = entry("ci", TOKEN, ["read", "push"], ["team/*"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the file is."""
    return tmp_path / "tokens.yaml"


def write(path: Path, content: str) -> Path:
    """Write a file in place."""
    path.write_text(content)
    path.chmod(0o600)
    return path


def harm(path: Path, how: str) -> None:
    """Break a file."""
    match how:
        case "no YAML":
            write(path, f"tokens: [{TOKEN}")
        case "a wrong entry":
            write_tokens(path, {**CI, "sha256": TOKEN})
        case "gone":
            path.unlink()
        case "a folder":
            path.unlink()
            path.mkdir()
        case _:
            path.chmod(0o602)


def mend(path: Path) -> None:
    """Write a good file with another token."""
    if path.is_dir():
        path.rmdir()
    write_tokens(path, entry("other", OTHER, ["read"], ["team/*"]))


async def is_known(tokens: TokenFile, token: str) -> bool:
    """Say whether a token fetches."""
    try:
        await tokens.authorize(Credential(token), FETCH)
    except NotAuthenticated:
        return False
    return True


async def problem(path: Path, clock: FakeClock) -> str:
    """Return what is wrong with a file."""
    with pytest.raises(TokenFileInvalid) as caught:
        await TokenFile(path, clock).read()
    return caught.value.message


@pytest.mark.parametrize(
    ("scopes", "projects", "action", "allowed"),
    [
        pytest.param(["read"], ["team/support"], FETCH, True, id="read, the project itself"),
        pytest.param(["read"], ["team/support"], PUSH, False, id="read is not push"),
        pytest.param(["push"], ["team/support"], PUSH, True, id="push"),
        pytest.param(["push"], ["team/support"], FETCH, False, id="push is not read"),
        pytest.param(["read"], ["team/*"], FETCH, True, id="all of a namespace"),
        pytest.param(["read"], ["*/support"], FETCH, True, id="one name in all namespaces"),
        pytest.param(["read"], ["*/*"], FETCH, True, id="everything"),
        pytest.param(["read"], ["t?am/sup[a-q]ort"], FETCH, True, id="wildcards"),
        pytest.param(["read"], ["other/x", "team/sup*"], FETCH, True, id="the second of two"),
        pytest.param(["read"], ["team/sup"], FETCH, False, id="a part of the name"),
        pytest.param(["read"], ["Team/support"], FETCH, False, id="other letters"),
        pytest.param(["read"], ["tea/*"], FETCH, False, id="a part of the namespace"),
        pytest.param(["read", "push"], ["*/*"], Action("get", "pods", "team", "w-0", "log", ""), False, id="no scope is for logs"),
        pytest.param(
            ["read", "push"], ["*/*"], Action("get", "arenaprojects", "team", "support", "git", "other.example.com"), False, id="another group"
        ),
        pytest.param(["read", "push"], ["*/*"], Action("*", "*"), False, id="everything at once"),
    ],
)
async def test_scopes_and_projects(path: Path, clock: FakeClock, scopes: list[str], projects: list[str], action: Action, *, allowed: bool) -> None:
    """A token is good for its scopes on projects that a glob names, `*` within a namespace or a name, and for nothing else."""
    tokens = TokenFile(write_tokens(path, entry("ci", TOKEN, scopes, projects)), clock)
    if allowed:
        assert (await tokens.authorize(Credential(TOKEN), action)).name == "ci"
        return
    with pytest.raises(NotAllowed, match="token 'ci' is not good for it"):
        await tokens.authorize(Credential(TOKEN), action)


@pytest.mark.parametrize(
    "digest",
    [
        pytest.param(hashlib.sha256(TOKEN.encode()).hexdigest(), id="of the token"),
        pytest.param(hashlib.sha256(f"{TOKEN}\n".encode()).hexdigest(), id="of the token with a line's end, as echo makes it"),
        pytest.param(hashlib.sha256(TOKEN.encode()).hexdigest().upper(), id="in capitals"),
        pytest.param(f"  {hashlib.sha256(TOKEN.encode()).hexdigest()}\n", id="with a line's end behind the digest"),
    ],
)
async def test_how_digests_are_made(path: Path, clock: FakeClock, digest: str) -> None:
    """However a person makes and pastes the digest, it is the token's; other tokens stay unknown."""
    tokens = TokenFile(write_tokens(path, {**CI, "sha256": digest}), clock)
    assert await is_known(tokens, TOKEN)
    assert not await is_known(tokens, digest.strip())
    assert not await is_known(tokens, f"{TOKEN}x")


async def test_json_is_yaml(path: Path, clock: FakeClock) -> None:
    """The file may be JSON."""
    assert await is_known(TokenFile(write(path, json.dumps({"tokens": [CI]})), clock), TOKEN)


async def test_several_tokens(path: Path, clock: FakeClock) -> None:
    """Each token has its own rights."""
    tokens = TokenFile(write_tokens(path, CI, entry("reader", OTHER, ["read"], ["team/*"])), clock)
    assert (await tokens.authorize(Credential(TOKEN), PUSH)).name == "ci"
    assert (await tokens.authorize(Credential(OTHER), FETCH)).name == "reader"
    with pytest.raises(NotAllowed):
        await tokens.authorize(Credential(OTHER), PUSH)


async def test_every_token_costs_the_same(path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every entry is compared in constant time, whichever it is that matches: how long an answer takes tells nothing of the tokens."""
    compared = list[tuple[Any, Any]]()
    genuine = hmac.compare_digest

    def counting(one: str, other: str) -> bool:
        compared.append((one, other))
        return genuine(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    others = [entry(f"other-{number}", f"{number}-{TOKEN}", ["read"], ["team/*"]) for number in range(8)]
    tokens = TokenFile(write_tokens(path, CI, *others), clock)
    counts = set()
    for token in (TOKEN, f"7-{TOKEN}", "unknown"):
        compared.clear()
        await is_known(tokens, token)
        counts.add(len(compared))
    assert counts == {2 * 9}


async def test_no_tokens(path: Path, clock: FakeClock) -> None:
    """An empty list is a good file that knows nobody: the way to withdraw all."""
    tokens = TokenFile(write_tokens(path), clock)
    await tokens.read()
    assert not await is_known(tokens, TOKEN)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param("", "valid dictionary", id="empty"),
        pytest.param("tokens: [", "it is no YAML (line 1)", id="no YAML"),
        pytest.param("\x00", "it is no YAML", id="not even text"),
        pytest.param("[" * 5000, "it is no YAML", id="too deep"),
        pytest.param("a: !!int secret", "it is no YAML", id="a value that is not of its type"),
        pytest.param("[]", "valid dictionary", id="a list"),
        pytest.param("tokens: []\ntoken: []", "a key is not `tokens`", id="another key"),
        pytest.param("#" * MAX_BYTES + "\n", "more than", id="too large"),
    ],
)
async def test_files_that_are_none(path: Path, clock: FakeClock, content: str, said: str) -> None:
    """A file that is none of ours is refused at the start, with what is wrong."""
    assert said in await problem(write(path, content), clock)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"name": None}, "tokens[0].name: ", id="no name"),
        pytest.param({"name": "a b"}, "tokens[0].name: ", id="a name with a space"),
        pytest.param({"sha256": None}, "tokens[0].sha256: ", id="no digest"),
        pytest.param({"sha256": TOKEN}, "tokens[0].sha256: ", id="the token in place of its digest"),
        pytest.param({"token": TOKEN}, "tokens[0]: a key is none of name, sha256, scopes and projects", id="the token beside its digest"),
        pytest.param({TOKEN: 1}, "tokens[0]: a key is none of", id="the token as a key"),
        pytest.param({"scopes": []}, "tokens[0].scopes: ", id="no scope"),
        pytest.param({"scopes": ["write"]}, "tokens[0].scopes[0]: ", id="an unknown scope"),
        pytest.param({"scopes": "read"}, "tokens[0].scopes: ", id="a scope that is no list"),
        pytest.param({"projects": []}, "tokens[0].projects: ", id="no project"),
        pytest.param({"projects": ["support"]}, "tokens[0].projects[0]: it must be NAMESPACE/NAME", id="a project without a namespace"),
        pytest.param({"projects": ["team/*", "**"]}, "tokens[0].projects[1]: it must be NAMESPACE/NAME", id="a glob over both"),
        pytest.param({"projects": ["team/[a"]}, "tokens[0].projects[0]: ", id="a glob that cannot be read"),
    ],
)
async def test_entries_that_are_none(path: Path, clock: FakeClock, change: dict[str, Any], said: str) -> None:
    """A wrong entry is named by its place; nothing that may be a token is quoted."""
    wrong = {key: value for key, value in {**CI, **change}.items() if value is not None}
    message = await problem(write_tokens(path, wrong), clock)
    assert said in message
    assert TOKEN not in message


@pytest.mark.parametrize("field", ["name", "sha256"])
async def test_each_once(path: Path, clock: FakeClock, field: str) -> None:
    """Two tokens of one name, or one token with two sets of rights, are an error."""
    other = {**entry("other", OTHER, ["read"], ["a/b"]), field: CI[field]}
    assert "several tokens have the" in await problem(write_tokens(path, CI, other), clock)


@pytest.mark.parametrize(
    ("mode", "taken"),
    [
        pytest.param(0o400, True, id="private"),
        pytest.param(0o440, True, id="readable for the group, as with fsGroup"),
        pytest.param(0o644, True, id="readable for all, a Secret's default"),
        pytest.param(0o660, False, id="writable for the group"),
        pytest.param(0o602, False, id="writable for all"),
    ],
)
async def test_who_may_do_what_with_the_file(path: Path, clock: FakeClock, mode: int, *, taken: bool) -> None:
    """Digests may be read by anybody; a file that others may write is not taken, for whoever writes it gets in."""
    write_tokens(path, CI).chmod(mode)
    tokens = TokenFile(path, clock)
    with capture_logs() as logs:
        assert await is_known(tokens, TOKEN) is taken
    assert [entry["event"] for entry in logs] == ["token file read" if taken else "token file broken"]
    if not taken:
        assert f"others than its owner may write it (mode {mode:04o})" in logs[0]["cause"]


async def test_a_change_counts_within_a_second(path: Path, clock: FakeClock) -> None:
    """What a new file says counts from the next look on; between looks the file is left alone."""
    tokens = TokenFile(write_tokens(path, CI), clock)
    assert await is_known(tokens, TOKEN)
    write_tokens(path, entry("other", OTHER, ["read"], ["team/*"]))
    assert await is_known(tokens, TOKEN)
    await clock.advance(LOOK_S)
    assert (await is_known(tokens, TOKEN), await is_known(tokens, OTHER)) == (False, True)


async def test_a_secret_that_is_exchanged(tmp_path: Path, clock: FakeClock) -> None:
    """A mounted Secret changes by a symbolic link to another folder, as the kubelet does it."""
    for folder, token in (("..1", TOKEN), ("..2", OTHER)):
        (tmp_path / folder).mkdir()
        write_tokens(tmp_path / folder / "tokens.yaml", entry("ci", token, ["read"], ["team/*"]))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "tokens.yaml").symlink_to("..data/tokens.yaml")
    tokens = TokenFile(tmp_path / "tokens.yaml", clock)
    assert await is_known(tokens, TOKEN)
    (tmp_path / "fresh").symlink_to("..2")
    (tmp_path / "fresh").rename(tmp_path / "..data")
    await clock.advance(LOOK_S)
    assert (await is_known(tokens, TOKEN), await is_known(tokens, OTHER)) == (False, True)


@pytest.mark.parametrize("how", ["no YAML", "a wrong entry", "gone", "a folder", "writable for others"])
async def test_a_broken_file_keeps_the_last_good_one(path: Path, clock: FakeClock, how: str) -> None:
    """A file that breaks while the server runs leaves the last good one in force, is told of once, and counts again once it is mended."""
    tokens = TokenFile(write_tokens(path, CI), clock)
    await tokens.read()
    harm(path, how)
    with capture_logs() as logs:
        for _ in range(5):
            await clock.advance(LOOK_S)
            assert await is_known(tokens, TOKEN)
    assert [(entry["event"], entry["log_level"], entry["in_force"]) for entry in logs] == [("token file broken", "error", 1)]
    assert TOKEN not in repr(logs)
    mend(path)
    await clock.advance(LOOK_S)
    assert (await is_known(tokens, TOKEN), await is_known(tokens, OTHER)) == (False, True)


async def test_a_file_that_comes_late(path: Path, clock: FakeClock) -> None:
    """Who insists on the file at the start is told that there is none; who does not finds it when it comes."""
    assert "No such file" in await problem(path, clock)
    tokens = TokenFile(path, clock)
    assert not await is_known(tokens, TOKEN)
    write_tokens(path, CI)
    await clock.advance(LOOK_S)
    assert await is_known(tokens, TOKEN)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
async def test_a_file_that_we_may_not_read(path: Path, clock: FakeClock) -> None:
    """A file that is closed to us is an error that says so."""
    write_tokens(path, CI).chmod(0)
    assert "Permission denied" in await problem(path, clock)


async def test_the_log_names_tokens_by_name(path: Path, clock: FakeClock) -> None:
    """What is read is told with the tokens' names, and neither tokens nor digests."""
    tokens = TokenFile(write_tokens(path, CI), clock)
    with capture_logs() as logs:
        await is_known(tokens, TOKEN)
    assert logs == [{"event": "token file read", "log_level": "info", "path": str(path), "tokens": ["ci"]}]


def documented() -> str:
    """Return the example of a token file in the documentation."""
    text = (Path(__file__).parents[2] / "docs" / "authorization.md").read_text()
    return next(block for block in text.split("```yaml\n")[1:] if block.startswith("tokens:")).partition("```")[0]


async def test_the_documented_file(path: Path, clock: FakeClock) -> None:
    """The example of the documentation is a file that is taken."""
    tokens = TokenFile(write(path, documented()), clock)
    with capture_logs() as logs:
        await tokens.read()
    assert logs[0]["tokens"] == ["build", "mirror"]
