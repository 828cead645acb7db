"""Refs in odd places, broken ones and hostile spellings: what we say beside what git says of one real repository."""

import contextlib
import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from dulwich.repo import Repo

from gitops.errors import RefNotFound, StorageFailed
from gitops.processes import git_program
from gitops.refs import ResolvedRef, resolve_ref

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "LC_ALL": "C",
    **{f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
NAMES = [
    *(
        f"refs/{place}/{name}"
        for place in ("heads", "tags")
        for name in ("both", "x/y", "v1.0-3-g0123abc", "1234", "deadbeef", "heads/only", "ü/é", "😀")
    ),
    *(
        f"refs/heads/{name}"
        for name in ("main", "-option", "--upload-pack=x", "$(id)", "`id`", "a;id", "a|b", "a&b", "a'b", 'a"b', "a@b", "@x", "x@", "{x}", "%2e")
    ),
    *(
        "refs/tags/only",
        "refs/heads/only",
        "refs/only",
        "refs/tags/refs/heads/main",
        "refs/heads/refs/heads/main",
        "refs/heads/tags/v",
        "refs/tags/v",
    ),
    *(
        "refs/stash",
        "refs/notes/commits",
        "refs/pull/1/head",
        "refs/merge-requests/1/merge",
        "refs/changes/34/1234/1",
        "refs/environments/x",
        "refs/HEAD",
    ),
    *("refs/heads/HEAD", "refs/tags/HEAD", "refs/heads/FETCH_HEAD", "refs/arena-not/x", "refs/heads/arena/runs/u", f"refs/heads/{'c' * 64}"),
]
# What git reads as something that is not a ref of ours: we refuse it, whatever git says.
REFUSED = {"HEAD", "-option", "--upload-pack=x"}


@dataclass(frozen=True)
class World:
    """A repository where every ref names a commit of its own."""

    path: Path
    commits: dict[str, str]

    def git(self, *arguments: str, given: str = "") -> str:
        """Run git here and return what it prints."""
        return subprocess.run(["git", *arguments], cwd=self.path, env=ENVIRONMENT, input=given, check=True, capture_output=True, text=True).stdout

    def gits_answers(self, spellings: Sequence[str]) -> dict[str, str | None]:
        """Return the commit that git names by each spelling."""
        lines = self.git("cat-file", "--batch-check=%(objectname) %(objecttype)", given="".join(f"{s}^{{commit}}\n" for s in spellings)).splitlines()
        return {s: line.split()[0] if line.endswith(" commit") else None for s, line in zip(spellings, lines, strict=True)}

    def our_answer(self, spelling: str) -> str | None:
        """Return the commit that we name."""
        try:
            return self.resolve(spelling).commit
        except RefNotFound:
            return None

    def resolve(self, spelling: str) -> ResolvedRef:
        """Resolve on a fresh handle."""
        with contextlib.closing(Repo(str(self.path), bare=True)) as repository:
            return resolve_ref(repository, spelling)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """One repository for all tests here, which only read it; half of its refs are packed."""
    made = World(tmp_path_factory.mktemp("refs") / "support.git", {})
    made.path.mkdir()
    made.git("init", "-q", "--bare", "--initial-branch=main")
    stream = [f"commit refs/made/{n}\ncommitter a <a@example.com> {1_700_000_000 + n} +0000\ndata 0\n\n" for n in range(len(NAMES))]
    made.git("fast-import", "--quiet", given="".join(stream))
    for number, name in enumerate(NAMES):
        made.commits[name] = made.git("rev-parse", f"refs/made/{number}").strip()
        _write_ref(made.path, name, made.commits[name])
        made.git("update-ref", "-d", f"refs/made/{number}")
        if number == len(NAMES) // 2:
            made.git("pack-refs", "--all")
    return made


def _write_ref(repository: Path, name: str, content: str) -> None:
    (repository / name).parent.mkdir(parents=True, exist_ok=True)
    (repository / name).write_text(f"{content}\n")


def spellings_of(names: Sequence[str]) -> list[str]:
    """Return every tail of every name that begins at a slash, and each with a part more or less."""
    tails = {"/".join(name.split("/")[start:]) for name in names for start in range(name.count("/") + 1)}
    return sorted(tails | {f"{tail}/more" for tail in tails} | {tail.rpartition("/")[0] for tail in tails if "/" in tail})


def test_every_spelling_of_every_name(world: World) -> None:
    """Full, half and short names, and names with a part too many or too few, name what git names, or nothing where git names nothing."""
    spellings = [spelling for spelling in spellings_of(NAMES) if spelling not in REFUSED]
    expected = world.gits_answers(spellings)
    assert {spelling: world.our_answer(spelling) for spelling in spellings} == expected
    assert sum(commit is not None for commit in expected.values()) > 2 * len(NAMES)


def test_random_spellings(world: World) -> None:
    """Of a thousand names put together from parts of real ones, whatever we resolve is what git resolves, and we miss none but revision expressions."""
    random_of = random.Random(5)  # noqa: S311 - test data
    parts = [
        "refs",
        "heads",
        "tags",
        "main",
        "both",
        "only",
        "x",
        "y",
        "HEAD",
        "v",
        "v1.0-3-g0123abc",
        "1234",
        "arena",
        "deadbeef",
        "..",
        "a b",
        ".x",
        "x.",
    ]
    spellings = ["/".join(random_of.choices(parts, k=random_of.randint(1, 4))) for _ in range(1000)]
    spellings = sorted({spelling for spelling in spellings if spelling != "HEAD"})
    expected = world.gits_answers(spellings)
    assert {spelling: world.our_answer(spelling) for spelling in spellings} == expected


@pytest.mark.parametrize("spelling", ["both", "only", "x/y", "refs/heads/main", "heads/main", "tags/v", "v", "main"])
def test_ambiguity_is_gits(world: World, spelling: str) -> None:
    """A name is ambiguous exactly where git warns that it is."""
    done = subprocess.run(["git", "rev-parse", "--verify", spelling], cwd=world.path, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    resolved = world.resolve(spelling)
    assert resolved.ambiguous is ("is ambiguous" in done.stderr)
    assert world.commits[resolved.ref] == resolved.commit == done.stdout.strip()


BROKEN = [
    pytest.param("", id="an empty file, as a power loss leaves it"),
    pytest.param("garbage", id="no object id"),
    pytest.param("{commit:.20}", id="half an object id"),
    pytest.param("0" * 40, id="the null id"),
    pytest.param("ref: refs/heads/nowhere", id="a symbolic ref to nothing"),
    pytest.param("ref: refs/heads/broken", id="a symbolic ref to itself"),
    pytest.param("ref: refs/heads/../../../outside", id="a symbolic ref that climbs out"),
    pytest.param("ref: refs/arena/runs/u", id="a symbolic ref to a pin"),
    pytest.param("ref: refs/heads/chain1", id="a chain of symbolic refs that is too long"),
]


@pytest.fixture
def small(tmp_path: Path) -> World:
    """A repository with main, a pin, and a chain of symbolic refs to main."""
    made = World(tmp_path / "support.git", {})
    made.path.mkdir()
    made.git("init", "-q", "--bare", "--initial-branch=main")
    made.commits["main"] = made.git("commit-tree", "-m", "first", made.git("mktree").strip()).strip()
    _write_ref(made.path, "refs/heads/main", made.commits["main"])
    _write_ref(made.path, "refs/arena/runs/u", made.commits["main"])
    for number in range(1, 5):
        _write_ref(made.path, f"refs/heads/chain{number}", f"ref: refs/heads/{f'chain{number + 1}' if number < 4 else 'main'}")
    (tmp_path / "outside").write_text(made.commits["main"])
    return made


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_ref_is_none(small: World, content: str) -> None:
    """A ref that names no object is no ref, and the next one of its short name answers, as git does it; git itself would follow one to a pin."""
    text = content.format(commit=small.commits["main"])
    _write_ref(small.path, "refs/heads/broken", text)
    _write_ref(small.path, "refs/tags/shaded", text.replace("heads/broken", "tags/shaded"))
    _write_ref(small.path, "refs/heads/shaded", small.commits["main"])
    with pytest.raises(RefNotFound, match="no branch or tag has this name"):
        small.resolve("broken")
    assert small.resolve("shaded") == ResolvedRef("refs/heads/shaded", small.commits["main"], ambiguous=False)
    if "arena" not in content and not content.startswith("0"):  # git takes the null id of a tag for an answer and then finds no object
        assert small.gits_answers(["broken", "shaded"]) == {"broken": None, "shaded": small.commits["main"]}


@pytest.mark.parametrize("content", ["{commit}", "{upper}", "{commit} and more", "ref: refs/heads/main", "ref: refs/heads/chain2"])
def test_what_git_forgives_we_forgive(small: World, content: str) -> None:
    """An object id in upper case, one with words behind it, and symbolic refs up to git's depth are refs."""
    _write_ref(small.path, "refs/heads/odd", content.format(commit=small.commits["main"], upper=small.commits["main"].upper()))
    assert small.resolve("odd").commit == small.commits["main"]
    assert small.gits_answers(["odd"]) == {"odd": small.commits["main"]}


@pytest.mark.parametrize("damage", [b"", b"junk", b"x\x9c\x4b\xca\xc9\x4f"])
def test_a_damaged_object_is_no_missing_ref(small: World, damage: bytes) -> None:
    """A commit whose object is damaged is the repository's failure, with the remedy: the ref is not called missing."""
    commit = small.commits["main"]
    path = small.path / "objects" / commit[:2] / commit[2:]
    path.unlink()
    path.write_bytes(damage)
    for spelling in ("main", commit):
        with pytest.raises(StorageFailed, match=f"cannot resolve ref '{spelling}' of project 'support': object {commit} is damaged") as caught:
            small.resolve(spelling)
        assert "git fsck" in caught.value.hint


def test_damaged_packed_refs(small: World) -> None:
    """A file of packed refs that cannot be read is the repository's failure too."""
    (small.path / "packed-refs").write_text("# pack-refs with: peeled fully-peeled sorted \nnonsense\n")
    with pytest.raises(StorageFailed, match="its refs cannot be read"):
        small.resolve("not-loose")


HOSTILE = [
    "--upload-pack=touch /tmp/x", "-h", "--all", "--git-dir=/", "--", "$(id)", "`id`", ";id", "|id", "a\nb", "a\0b", "\x1b[31m", "main --all", "main\t--all",
    "^main", "main^{/x}", ":/x", "@{-1}", "@{u}", "main..", "...", "ext::sh -c id", "file:///etc/passwd", "refs/heads/*", "refs/heads/main:refs/heads/x",
    "+refs/heads/main", "%(objectname)", "a" * 39, "a" * 41, "g" * 40, "\udcff", "\u202emain", "refs/arena/runs/u", "../../etc/passwd", "/etc/passwd", "~", "\\",
]  # fmt: skip


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A git on the PATH that writes down its command line and then does the work; the file it writes to."""
    real, log, program = shutil.which("git"), tmp_path / "heard", tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s " "$@" >> {log}\nexec {real} "$@"\n')
    program.chmod(0o755)
    log.touch()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    git_program.cache_clear()
    yield log
    git_program.cache_clear()


def test_nothing_hostile_reaches_a_command_line(world: World, heard: Path) -> None:
    """No spelling becomes an argument of git but a whole SHA, which holds nothing but digits."""
    found = {spelling: world.our_answer(spelling) for spelling in HOSTILE}
    assert {spelling: commit for spelling, commit in found.items() if commit} == {
        "$(id)": world.commits["refs/heads/$(id)"],
        "`id`": world.commits["refs/heads/`id`"],
    }
    assert heard.read_text() == ""
    commit = world.commits["refs/heads/main"]
    assert world.resolve(commit.upper()).commit == commit
    assert heard.read_text() == f"rev-list --max-count=1 {commit} --not --exclude=refs/arena/* --all "
