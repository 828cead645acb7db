"""The rows of the conformance table: what a git client does, run as a test under two policies and printed in docs/git-conformance.md.

Owns the registry of rows, the repository that each begins with, and the words of the table. `python -m tests.git.conformance` writes the page.
"""

import ast
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitops.push_policy import PushPolicy
from tests.gitops.conftest import GitClient, GitRun, GitServer

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "git-conformance.md"
OPEN = PushPolicy(refs="any", allow_force=True, push_options=True)
POLICIES: Mapping[str, PushPolicy] = {"open": OPEN, "main only": PushPolicy()}
DAY_S = 86400
FIRST_DAY_S = 1_704_067_200  # 2024-01-01
BIG = bytes(range(256)) * 400


class Refused(Exception):
    """A git client ended with an error."""

    def __init__(self, run: GitRun) -> None:
        super().__init__(run.err)
        self.run = run


@dataclass
class Site:
    """A server under one policy, its repository, and a client's place to work."""

    server: GitServer
    client: GitClient
    folder: Path

    @property
    def url(self) -> str:
        """The clone URL."""
        return self.server.url()

    async def git(self, *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
        """Run the client and return what it prints.

        Raises:
            Refused: it ended with an error.
        """
        run = await self.client(*words, cwd=cwd, check=False, env=env)
        if run.status != 0:
            raise Refused(run)
        return run.out

    async def clone(self, *options: str, name: str = "clone") -> Path:
        """Clone the repository."""
        target = self.folder / name
        await self.git("clone", "-q", *options, self.url, str(target))
        return target

    async def commit(self, work: Path, files: Mapping[str, str | bytes]) -> str:
        """Commit files and return the commit."""
        return await self.client.commit(work, files)

    async def ref(self, name: str) -> str:
        """Return what a ref of the server names; empty when there is none."""
        run = await self.client("rev-parse", "-q", "--verify", name, cwd=self.server.path(), check=False)
        return run.out.strip()

    async def log(self, work: Path, *what: str) -> list[str]:
        """Return the subjects of the commits that a clone holds, newest first."""
        return (await self.git("log", "--format=%s", *what, cwd=work)).split()

    def heard(self, header: str) -> set[str]:
        """Return the values of a request header that the server has seen."""
        return {headers[header] for headers in self.server.authority.headers if header in headers}


Operation = Callable[[Site], Awaitable[None]]


@dataclass(frozen=True)
class Row:
    """One row. `main` is what a main-only project answers where it refuses what an open one takes; empty: the same happens."""

    area: str
    what: str
    run: Operation
    main: str = ""

    @property
    def name(self) -> str:
        """The name of the test."""
        return self.run.__name__

    async def check(self, site: Site, policy: str) -> None:
        """Carry the row out, and check that a refusal comes where the table says so, with its words, and changes no ref."""
        if policy == "open" or not self.main:
            await self.run(site)
            return
        before = await site.git("for-each-ref", cwd=site.server.path())
        with pytest.raises(Refused) as refused:
            await self.run(site)
        assert self.main in refused.value.run.err, refused.value.run.err
        assert await site.git("for-each-ref", cwd=site.server.path()) == before


ROWS: list[Row] = []


def row(area: str, what: str, *, main: str = "") -> Callable[[Operation], Operation]:
    """Put a function into the table."""

    def register(run: Operation) -> Operation:
        ROWS.append(Row(area, what, run, main))
        return run

    return register


def make_template(path: Path) -> None:
    """Make the bare repository that rows begin with: c1 to c5 on main, one a day; dev from c3 on; tag v1 on c2, annotated tag v2 on c4."""
    subprocess.run(["git", "init", "-q", "--bare", "--template=", "-b", "main", str(path)], check=True)
    lines: list[bytes] = []
    for number in range(1, 6):
        mark = b"mark :%d\n" % number if number != 1 else b"mark :1\n"
        lines.append(b"commit refs/heads/main\n%scommitter J <j@x> %d +0000\n%s" % (mark, FIRST_DAY_S + number * DAY_S, _data(b"c%d" % number)))
        lines.append(b"M 100644 inline a.txt\n" + _data(b"%d\n" % number))
        if number == 1:
            lines.append(b"M 100644 inline dir/b.txt\n" + _data(b"b\n") + b"M 100644 inline big.bin\n" + _data(BIG))
    lines.append(b"commit refs/heads/dev\nmark :9\ncommitter J <j@x> %d +0000\n%sfrom :3\n" % (FIRST_DAY_S + 9 * DAY_S, _data(b"d1")))
    lines.append(b"M 100644 inline dev.txt\n" + _data(b"dev\n"))
    lines.append(b"reset refs/tags/v1\nfrom :2\n\ntag v2\nfrom :4\ntagger J <j@x> %d +0000\n%s" % (FIRST_DAY_S + 5 * DAY_S, _data(b"second")))
    subprocess.run(["git", "-C", str(path), "fast-import", "--quiet"], input=b"".join(lines), check=True)


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


ELSEWHERE: Sequence[tuple[str, str, str]] = (
    ("`Expect: 100-continue` is answered before the body comes", "tests/gitops/test_smart_http_push.py", "test_waits_for_100_continue"),
    ("a push that will be refused is refused before it uploads", "tests/gitops/test_smart_http_limits.py", "test_challenge_comes_before_the_body"),
    (
        "a length over the limit is refused before the body",
        "tests/gitops/test_smart_http_limits.py",
        "test_declared_length_over_the_limit_is_refused_before_the_body",
    ),
    ("several rounds of negotiation, compressed", "tests/gitops/test_smart_http_fetch.py", "test_long_negotiation_is_compressed"),
    ("malicious trees of every kind, each refused by path", "tests/gitops/test_push_policy.py", "test_hostile_tree_is_refused"),
    (
        "malicious `.gitmodules`, a file that is a directory too, 70 directories deep",
        "tests/git/test_git_faults.py",
        "test_malicious_tree_is_refused_on_any_branch",
    ),
    ("a corrupt pack", "tests/gitops/test_smart_http_push.py", "test_damaged_pack_is_refused"),
    (
        "a truncated pack, a commit without its blob, null ids, empty names, a ref to nothing, a stale old id",
        "tests/git/test_git_faults.py",
        "test_faulty_push_is_refused_in_words",
    ),
    ("a gzip bomb", "tests/gitops/test_smart_http_limits.py", "test_gzip_body_is_not_trusted"),
    ("garbage instead of pkt-lines", "tests/gitops/test_smart_http_push.py", "test_malformed_command_list_is_a_bad_request"),
    ("paths that climb, dumb files, other services", "tests/gitops/test_smart_http_limits.py", "test_request_that_is_not_gits"),
    ("a client that hangs up at each stage of a push or a fetch", "tests/git/test_git_hangups.py", "test_client_that_hangs_up_leaves_nothing"),
    ("a server in a C locale", "tests/git/test_git_heavy.py", "test_server_in_a_c_locale"),
    ("10,000 refs: pushed at once, listed, cloned, one of them fetched", "tests/git/test_git_heavy.py", "test_ten_thousand_refs"),
    (
        "a push of 300 MB: refused in one line at the default limit, accepted when it is raised",
        "tests/git/test_git_heavy.py",
        "test_push_of_300_megabytes",
    ),
    ("64 clones at once", "tests/git/test_git_heavy.py", "test_many_clones_at_once"),
)
"""What other tests show, with where: (what, file, test)."""


def has_test(file: str, test: str) -> bool:
    """Say whether a file defines a test of the name."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return any(isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef) and node.name == test for node in tree.body)


def page() -> str:
    """Return the page."""
    lines = [
        "# Git conformance",
        "",
        "Written by `python -m tests.git.conformance` from the tests; a test compares. Each row is carried out by the real git client against the real",
        "server (`tests/git`), once on a project whose policy takes every branch and tag, force pushes, deletions and push options, and once on a",
        "project as it is hosted today: main only, no force.",
        "",
        "| area | what the client does | open policy | main only |",
        "|---|---|---|---|",
    ]
    lines += [f"| {each.area} | {each.what} | ok | {f'refused: {each.main}' if each.main else 'ok'} |" for each in ROWS]
    lines += ["", "## Faults, attacks and size", "", "| what | test |", "|---|---|"]
    lines += [f"| {what} | `{file}::{test}` |" for what, file, test in ELSEWHERE]
    return "\n".join([*lines, ""])


def main() -> None:
    """Write the page."""
    # The registry is that of the module by its own name, which the rows import, not that of `__main__`.
    from tests.git import conformance, rows_fetch, rows_push  # noqa: PLC0415

    assert rows_fetch, rows_push
    PAGE.write_text(conformance.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
