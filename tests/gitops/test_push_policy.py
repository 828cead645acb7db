"""The push policy, met by the real git client."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gitops.push_policy import PushPolicy, explain_report, receive_settings, refuse_commands
from gitops.receive_protocol import RefCommand
from gitops.tree_rules import SnapshotLimits
from tests.gitops.conftest import PROJECT, GitClient, GitRun, GitServer
from tests.gitops.forge import EXECUTABLE, FILE, FOLDER, IDENTITY, LINK, MODULE, Forge

ZERO = "0" * 40
ONE = "1" * 40


@pytest.fixture
def forge(work: Path) -> Forge:
    """Forges objects in the client's repository."""
    return Forge(work)


async def push(git: GitClient, work: Path, commit: str, *options: str) -> GitRun:
    """Push one commit to main."""
    return await git("push", *options, "origin", f"{commit}:refs/heads/main", cwd=work, check=False)


async def assert_refused(server: GitServer, run: GitRun, said: str, *, main: str | None = None) -> None:
    """Check that a push was refused with one line, and that nothing of it is left."""
    lines = [line.removeprefix("remote: ").rstrip() for line in run.err.splitlines() if line.startswith("remote: error: cannot")]
    assert run.status == 1, run.err
    assert len(lines) == 1, run.err
    assert said in lines[0], run.err
    assert "; " in lines[0], "the line names no remedy"
    assert await server.repositories.head(PROJECT) == main
    assert server.changes == []
    leftovers = [path for path in (server.path() / "objects").rglob("*") if path.is_file()]
    assert main is not None or leftovers == []
    assert not list((server.path() / "objects").glob("tmp_objdir*"))


@pytest.mark.parametrize(
    ("refspec", "said"),
    [
        pytest.param("HEAD:refs/heads/dev", "cannot push to 'refs/heads/dev'", id="another branch"),
        pytest.param("HEAD:refs/tags/v1", "cannot push to 'refs/tags/v1'", id="a tag"),
        pytest.param("HEAD:refs/arena/runs/u1", "cannot push to 'refs/arena/runs/u1'", id="a pin"),
        pytest.param("HEAD:refs/heads/main2", "only 'refs/heads/main' is hosted", id="a branch whose name begins like main"),
    ],
)
async def test_only_main_is_hosted(server: GitServer, git: GitClient, work: Path, refspec: str, said: str) -> None:
    """A push to any ref but main is refused, with the command to use."""
    await git.commit(work, {"a.txt": "a"})
    run = await git("push", "origin", refspec, cwd=work, check=False)
    await assert_refused(server, run, said)
    assert "git push origin HEAD:main" in run.err
    assert "only main is hosted" in run.err


async def test_one_bad_ref_refuses_the_whole_push(server: GitServer, git: GitClient, work: Path) -> None:
    """A push of main and another branch changes neither."""
    await git.commit(work, {"a.txt": "a"})
    run = await git("push", "origin", "HEAD:refs/heads/main", "HEAD:refs/heads/dev", cwd=work, check=False)
    await assert_refused(server, run, "refs/heads/dev")


Hostile = Callable[[Forge], bytes]

HOSTILE: dict[str, tuple[Hostile, str]] = {
    "dot dot": (lambda f: f.tree((FOLDER, b"..", f.tree((FILE, b"x", f.blob(b"x"))))), "'..'"),
    "dot": (lambda f: f.tree((FOLDER, b".", f.tree((FILE, b"x", f.blob(b"x"))))), "'.'"),
    "git directory": (lambda f: f.tree((FOLDER, b".git", f.tree((FILE, b"config", f.blob(b"x"))))), "'.git'"),
    "git in capitals, below": (lambda f: f.tree((FOLDER, b"sub", f.tree((FILE, b".GIT", f.blob(b"x"))))), "'sub/.GIT'"),
    "git as NTFS folds it": (lambda f: f.tree((FOLDER, b"git~1", f.tree((FILE, b"config", f.blob(b"x"))))), "'git~1'"),
    "git as HFS folds it": (lambda f: f.tree((FILE, ".g\u200cit".encode(), f.blob(b"x"))), ".git"),
    "a slash in a name": (lambda f: f.tree((FILE, b"../x", f.blob(b"x"))), "'../x'"),
    "an absolute name": (lambda f: f.tree((FILE, b"/etc/passwd", f.blob(b"x"))), "/etc/passwd"),
    "an escaping symlink": (
        lambda f: f.tree((FOLDER, b"prompts", f.tree((LINK, b"shared", f.blob(b"../../secrets"))))),
        "symlink 'prompts/shared' leaves",
    ),
    "an absolute symlink": (lambda f: f.tree((LINK, b"passwd", f.blob(b"/etc/passwd"))), "symlink 'passwd'"),
    "a submodule": (lambda f: f.tree((MODULE, b"vendor", ONE.encode())), "submodule 'vendor'"),
    "a name that is not UTF-8": (lambda f: f.tree((FILE, b"caf\xe9", f.blob(b"x"))), "not UTF-8"),
    "names that collide": (lambda f: f.tree((FILE, b"README", f.blob(b"1")), (FILE, b"readme", f.blob(b"2"))), "'readme'"),
    "an odd mode": (lambda f: f.tree((b"100777", b"run.sh", f.blob(b"x"))), "'run.sh' has mode 100777"),
    "a group-writable mode": (lambda f: f.tree((b"100664", b"old.txt", f.blob(b"x"))), "'old.txt' has mode 100664"),
    "doubled entries": (lambda f: f.tree((FILE, b"a", f.blob(b"1")), (FILE, b"a", f.blob(b"2"))), "duplicateEntries"),
    "unsorted entries": (lambda f: f.tree((FILE, b"b", f.blob(b"1")), (FILE, b"a", f.blob(b"2"))), "treeNotSorted"),
}


@pytest.mark.parametrize(("hostile", "said"), HOSTILE.values(), ids=HOSTILE.keys())
async def test_hostile_tree_is_refused(server: GitServer, git: GitClient, work: Path, forge: Forge, hostile: Hostile, said: str) -> None:
    """A tree that no snapshot may hold never gets in; one line names the path and the remedy."""
    run = await push(git, work, forge.commit(hostile(forge)))
    await assert_refused(server, run, said)


async def test_dangerous_name_in_an_old_commit_is_refused(server: GitServer, git: GitClient, work: Path, forge: Forge) -> None:
    """A name that no checkout survives is refused wherever in the new history it is."""
    good = forge.tree((FILE, b"a", forge.blob(b"a")))
    old = forge.commit(forge.tree((FOLDER, b"deep", forge.tree((FOLDER, b"..", good)))))
    run = await push(git, work, forge.commit(good, [old]))
    await assert_refused(server, run, "'deep/..'")


async def test_old_commit_may_hold_what_no_snapshot_could(server: GitServer, git: GitClient, work: Path, forge: Forge) -> None:
    """A submodule that is gone from main's tree harms nobody."""
    old = forge.commit(forge.tree((MODULE, b"vendor", ONE.encode())))
    new = forge.commit(forge.tree((EXECUTABLE, b"a", forge.blob(b"a")), (LINK, b"b", forge.blob(b"a"))), [old])
    run = await push(git, work, new)
    assert run.status == 0, run.err
    assert await server.repositories.head(PROJECT) == new


def _commit_text(tree: bytes, author: bytes) -> bytes:
    return b"tree " + tree + b"\nauthor " + author + b"\ncommitter " + author + b"\n\nold\n"


@pytest.mark.parametrize(
    "author",
    [
        pytest.param(IDENTITY + b" 1112911993 +051800", id="badTimezone"),
        pytest.param(b"Jane<jane@example.com> 1112911993 +0000", id="missingSpaceBeforeEmail"),
        pytest.param(IDENTITY + b" 01112911993 +0000", id="zeroPaddedDate"),
        pytest.param(b"<jane@example.com> 1112911993 +0000", id="missingNameBeforeEmail"),
    ],
)
async def test_harmless_fault_of_an_old_history_is_let_in(git: GitClient, work: Path, forge: Forge, author: bytes) -> None:
    """Commits of bygone tools are accepted; git says what is wrong with them."""
    tree = forge.tree((FILE, b"a", forge.blob(b"a")))
    old = forge.raw_commit(_commit_text(tree, author))
    new = forge.commit(tree, [old])
    run = await push(git, work, new)
    assert run.status == 0, run.err
    assert f"warning: object {old}" in run.err


async def test_zero_padded_mode_of_an_old_history_is_let_in(server: GitServer, git: GitClient, work: Path, forge: Forge) -> None:
    """A tree that spells a directory 040000 is accepted."""
    old = forge.commit(forge.tree((b"040000", b"d", forge.tree((FILE, b"a", forge.blob(b"a"))))))
    run = await push(git, work, old)
    assert run.status == 0, run.err
    assert await server.repositories.head(PROJECT) == old


async def test_harmful_fault_names_object_check_and_remedy(server: GitServer, git: GitClient, work: Path, forge: Forge) -> None:
    """What fsck refuses is never a bare unpacker error."""
    tree = forge.tree((FILE, b"a", forge.blob(b"a")))
    bad = forge.raw_commit(b"tree " + tree + b"\ncommitter " + IDENTITY + b" 1112911993 +0000\n\nno author\n")
    run = await push(git, work, bad)
    await assert_refused(server, run, f"object {bad}: check 'missingAuthor' fails")
    assert f"remote unpack failed: object {bad[:12]} fails check 'missingAuthor'" in run.err


async def test_large_file_is_refused_by_path(server: GitServer, git: GitClient, work: Path) -> None:
    """A blob over the limit is named with its size, however well it compresses."""
    server.authority.allow(max_blob_bytes=1000)
    commit = await git.commit(work, {"data/big.bin": bytes(100_000), "a": "a"})
    await assert_refused(server, await push(git, work, commit), "file 'data/big.bin' has 100000 bytes")


async def test_large_pack_is_refused_readably(server: GitServer, git: GitClient, work: Path) -> None:
    """A pack over the limit gets words, not a status code, though the client only listens after it has sent everything."""
    server.authority.allow(max_pack_bytes=200_000)
    commit = await git.commit(work, {"noise.bin": os.urandom(2_000_000)})
    run = await git("-c", "http.postBuffer=65536", "push", "origin", f"{commit}:refs/heads/main", cwd=work, check=False)
    await assert_refused(server, run, "its pack is larger than 200000 bytes")


@pytest.mark.parametrize(
    ("tree_limits", "said"),
    [
        pytest.param(SnapshotLimits(max_files=2), "more than 2 files", id="files"),
        pytest.param(SnapshotLimits(max_bytes=10), "more than the limit of 10", id="bytes"),
    ],
)
async def test_tree_beyond_the_snapshot_limits_is_refused(
    server: GitServer, git: GitClient, work: Path, tree_limits: SnapshotLimits, said: str
) -> None:
    """What could not be exported is refused when it is pushed."""
    server.authority.allow(limits=tree_limits)
    commit = await git.commit(work, {"a": "aaaaa", "b": "bbbbb", "c": "ccccc"})
    await assert_refused(server, await push(git, work, commit), said)


async def test_sizes_of_old_files_count(server: GitServer, git: GitClient, work: Path) -> None:
    """The limit is of the whole tree, not of what a push adds."""
    first = await git.commit(work, {"a": "aaaaa"})
    await git("push", "-q", "origin", "main", cwd=work)
    server.changes.clear()
    server.authority.allow(limits=SnapshotLimits(max_bytes=8))
    commit = await git.commit(work, {"b": "bbbbb"})
    await assert_refused(server, await push(git, work, commit), "10 bytes", main=first)


async def test_force_push_needs_permission(server: GitServer, git: GitClient, work: Path, forge: Forge) -> None:
    """A forced push is refused until the project allows it."""
    first = await git.commit(work, {"a": "1"})
    await git("push", "-q", "origin", "main", cwd=work)
    server.changes.clear()
    other = forge.commit(forge.tree((FILE, b"a", forge.blob(b"2"))))
    await assert_refused(server, await push(git, work, other, "--force"), "commits would be lost", main=first)
    server.authority.allow(allow_force=True)
    assert (await push(git, work, other, "--force")).status == 0
    assert await server.repositories.head(PROJECT) == other


async def test_deletion_needs_permission(server: GitServer, git: GitClient, work: Path) -> None:
    """Main cannot be deleted until the project allows it; then the listener hears of it."""
    first = await git.commit(work, {"a": "1"})
    await git("push", "-q", "origin", "main", cwd=work)
    server.changes.clear()
    await assert_refused(server, await git("push", "origin", ":main", cwd=work, check=False), "cannot delete 'main'", main=first)
    server.authority.allow(allow_force=True)
    await git("push", "-q", "origin", ":main", cwd=work)
    assert await server.repositories.head(PROJECT) is None
    assert server.changes == [PROJECT]


def test_remedy_of_a_force_push_is_the_projects() -> None:
    """Whoever sets the policy says how it can be changed."""
    policy = PushPolicy(force_remedy="set the annotation")
    refusal = refuse_commands([RefCommand(ONE, ZERO, b"refs/heads/main")], policy)
    assert refusal is not None
    assert refusal.words == ["error: cannot delete 'main': its commits would be lost; set the annotation"]


def test_words_about_many_refs_are_bounded() -> None:
    """A mirror push of hundreds of branches prints ten lines, and refuses each ref."""
    commands = [RefCommand(ZERO, ONE, b"refs/heads/b%d" % number) for number in range(300)]
    refusal = refuse_commands(commands, PushPolicy())
    assert refusal is not None
    assert (len(refusal.causes), len(refusal.words)) == (300, 10)


def test_damaged_pack_is_explained() -> None:
    """An unpacker error without a named check says what to do."""
    words, unpack = explain_report({"unpack": "index-pack abnormal exit"}, ["fatal: early EOF"], PushPolicy())
    assert "run `git fsck`" in words[0]
    assert unpack == "index-pack abnormal exit"


def test_full_volume_is_explained() -> None:
    """A server without space says so, and does not call the pack damaged."""
    words, unpack = explain_report({"unpack": "index-pack abnormal exit"}, ["fatal: write error: No space left on device"], PushPolicy())
    assert "no space left on device on the server" in words[0]
    assert unpack == "no space left on device"


def test_git_itself_is_the_second_line() -> None:
    """The settings of receive-pack refuse the same refs without our help."""
    settings = receive_settings(PushPolicy())
    assert settings["receive.denyNonFastForwards"] == settings["receive.denyDeletes"] == "true"
    assert [value for key, value in settings.items() if key.startswith("receive.hideRefs")] == ["refs", "!refs/heads/main"]


@pytest.mark.parametrize(
    ("ref", "main_only", "any_ref"),
    [
        pytest.param(b"refs/heads/main", True, True, id="main"),
        pytest.param(b"refs/heads/dev/x", False, True, id="another branch"),
        pytest.param(b"refs/tags/v1", False, True, id="a tag"),
        pytest.param(b"refs/arena/runs/u1", False, False, id="a pin"),
        pytest.param(b"refs/notes/commits", False, False, id="notes"),
        pytest.param(b"HEAD", False, False, id="HEAD"),
    ],
)
def test_which_refs_are_hosted(ref: bytes, *, main_only: bool, any_ref: bool) -> None:
    """A project hosts main alone, or branches and tags; nothing else, and never a pin."""
    assert (PushPolicy().hosts(ref), PushPolicy(refs="any").hosts(ref)) == (main_only, any_ref)
    refusal = refuse_commands([RefCommand(ZERO, ONE, ref)], PushPolicy(refs="any"))
    assert (refusal is None) == any_ref


@pytest.mark.parametrize(
    ("cause", "said", "words"),
    [
        pytest.param("non-fast-forward", "", "cannot replace 'dev': commits would be lost", id="not a fast-forward"),
        pytest.param("failed to update ref", "", "cannot move 'dev': it was moved meanwhile", id="a lost race"),
        pytest.param(
            "failed to update ref",
            "error: cannot lock ref 'refs/heads/dev': 'refs/heads/dev/x' exists; cannot create 'refs/heads/dev'",
            "cannot create 'dev': 'dev/x' exists",
            id="a directory of refs",
        ),
        pytest.param("missing necessary objects", "", "cannot move 'dev': it needs objects", id="missing objects"),
    ],
)
def test_ref_that_did_not_move_is_explained(cause: str, said: str, words: str) -> None:
    """What git says of one ref in two words becomes a line with the remedy."""
    lines, unpack = explain_report({"unpack": "ok", "refs/heads/dev": cause, "refs/heads/main": "ok"}, [said], PushPolicy(refs="any"))
    assert (len(lines), unpack) == (1, "")
    assert words in lines[0]
    assert "; " in lines[0]
