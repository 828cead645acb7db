"""Pushes that git's own client would not send, on an open policy: trees that harm, packs that lack something, ids that are stale."""

import asyncio
import hashlib
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from gitops import pktline
from tests.git.conformance import OPEN
from tests.gitops.conftest import GitClient, GitServer, git, limits, repositories, server, volume, work
from tests.gitops.forge import FILE, FOLDER, LINK, Forge
from tests.gitops.test_smart_http_push import close, push_body, raw_post

assert [git, limits, repositories, server, volume, work]  # fixtures

ZERO, ONE = "0" * 40, "1" * 40
EMPTY_PACK = b"PACK\0\0\0\2\0\0\0\0" + hashlib.sha1(b"PACK\0\0\0\2\0\0\0\0").digest()  # noqa: S324 - git's format
Hostile = Callable[[Forge], bytes]

HOSTILE: dict[str, tuple[Hostile, str]] = {
    "a file that is a directory too": (
        lambda f: f.tree((FILE, b"a", f.blob(b"1")), (FOLDER, b"a", f.tree((FILE, b"x", f.blob(b"2"))))),
        "duplicateEntries",
    ),
    ".gitmodules is a symlink": (lambda f: f.tree((LINK, b".gitmodules", f.blob(b"other"))), "gitmodulesSymlink"),
    ".gitmodules with an option for a URL": (
        lambda f: f.tree((FILE, b".gitmodules", f.blob(b'[submodule "x"]\n\tpath = x\n\turl = -u./evil\n'))),
        "gitmodulesUrl",
    ),
    ".gitmodules with a name that climbs": (
        lambda f: f.tree((FILE, b".gitmodules", f.blob(b'[submodule "../../x"]\n\tpath = x\n\turl = ./x\n'))),
        "gitmodulesName",
    ),
    "a path of 70 directories": (lambda f: _nested(f, 70), "deeper than 64 levels"),
}


def _nested(forge: Forge, depth: int) -> bytes:
    tree = forge.tree((FILE, b"x", forge.blob(b"x")))
    for _ in range(depth):
        tree = forge.tree((FOLDER, b"d", tree))
    return tree


@pytest.mark.parametrize(("hostile", "said"), HOSTILE.values(), ids=HOSTILE.keys())
async def test_malicious_tree_is_refused_on_any_branch(server: GitServer, git: GitClient, work: Path, hostile: Hostile, said: str) -> None:
    """An open policy opens refs, not trees: one line names what is wrong, and nothing is kept."""
    server.authority.policy = OPEN
    forge = Forge(work)
    commit = forge.commit(hostile(forge))
    run = await git("-c", "core.protectHFS=false", "push", "origin", f"{commit}:refs/heads/dev", cwd=work, check=False)
    lines = [line for line in run.err.splitlines() if line.startswith("remote: error: cannot")]
    assert run.status == 1
    assert len(lines) == 1, run.err
    assert said in lines[0]
    assert not [path for path in (server.path() / "objects").rglob("*") if path.is_file()]


def _pack(*objects: tuple[int, bytes]) -> bytes:
    """Make a pack of whole objects (type number, content)."""
    body = b"PACK\0\0\0\2" + len(objects).to_bytes(4, "big")
    for kind, content in objects:
        size, head = len(content), bytearray()
        byte = kind << 4 | size & 15
        size >>= 4
        while size:
            head.append(byte | 128)
            byte, size = size & 127, size >> 7
        head.append(byte)
        body += bytes(head) + zlib.compress(content)
    return body + hashlib.sha1(body).digest()  # noqa: S324 - git's format


def _of_tree(tree: bytes) -> tuple[str, bytes]:
    """Return a commit of a tree of exactly these bytes, and the pack of both."""
    tree_id = hashlib.sha1(b"tree %d\0" % len(tree) + tree).hexdigest()  # noqa: S324 - git's format
    commit = f"tree {tree_id}\nauthor J <j@x> 1700000000 +0000\ncommitter J <j@x> 1700000000 +0000\n\nx\n".encode()
    commit_id = hashlib.sha1(b"commit %d\0" % len(commit) + commit).hexdigest()  # noqa: S324 - git's format
    return commit_id, _pack((1, commit), (2, tree))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        pytest.param("stale", b"error: cannot move 'main': it was moved meanwhile", id="a stale old id"),
        pytest.param("nothing", b"error: cannot move 'dev': it needs objects that neither", id="a ref to an object that does not exist"),
        pytest.param("blob", b"error: cannot accept the push: it needs object 1111", id="a commit without its blob"),
        pytest.param("null", b"check 'nullSha1' fails", id="a tree with a null id"),
        pytest.param("empty", b"check 'badTree' fails", id="a tree with an empty name"),
        pytest.param("truncated", b"error: cannot accept the push: the pack is damaged or incomplete", id="a truncated pack"),
        pytest.param("name", b"funny refname", id="a name that is none"),
    ],
)
async def test_faulty_push_is_refused_in_words(server: GitServer, git: GitClient, work: Path, fault: str, said: bytes) -> None:
    """What no client should send is refused in words, and no ref is moved."""
    server.authority.policy = OPEN
    first = await git.commit(work, {"noise.bin": os.urandom(20_000), "b": "b\n"})
    await git("push", "-q", "origin", "main", cwd=work)
    second = await git.commit(work, {"b.txt": "b"})
    whole = await push_body(git, work, second)
    pack = whole[whole.index(b"PACK") :]
    blob = hashlib.sha1(b"blob 2\0b\n").digest()  # noqa: S324 - git's format
    short, null, empty = _of_tree(b"100644 a\0" + bytes.fromhex(ONE)), _of_tree(b"100644 a\0" + bytes(20)), _of_tree(b"100644 \0" + blob)
    old, new, ref, body = {
        "stale": (ONE, second, "main", pack),
        "nothing": (ZERO, ONE, "dev", EMPTY_PACK),
        "blob": (ZERO, short[0], "dev", short[1]),
        "null": (ZERO, null[0], "dev", null[1]),
        "empty": (ZERO, empty[0], "dev", empty[1]),
        "truncated": (ZERO, second, "dev", pack[: len(pack) // 2]),
        "name": (ZERO, second, "a..b", pack),
    }[fault]
    command = pktline.encode(f"{old} {new} refs/heads/{ref}\0report-status side-band-64k agent=test".encode()) + pktline.FLUSH
    reader, writer = await raw_post(server, "git-receive-pack", command + body, headers="Connection: close\r\n")
    async with asyncio.timeout(20):
        answer = await reader.read()
    await close(writer)
    assert said in answer
    assert (await git("ls-remote", server.url(), "refs/*")).out.split() == [first, "refs/heads/main"]
    assert not list((server.path() / "objects").glob("tmp_objdir*"))
