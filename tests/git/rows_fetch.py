"""Rows of the conformance table: what a client that reads does."""

from pathlib import Path

from tests.git.conformance import BIG, Site, row
from tests.gitops.conftest import PROJECT

HISTORY = ["c5", "c4", "c3", "c2", "c1"]


def _clone_in(version: str) -> None:
    @row("protocol", f"clone in protocol version {version}")
    async def clone(site: Site) -> None:
        await site.git("-c", f"protocol.version={version}", "clone", "-q", site.url, str(site.folder / "clone"))
        assert await site.log(site.folder / "clone") == HISTORY
        assert site.heard("git-protocol") == ({f"version={version}"} if version != "0" else set())

    clone.__name__ = f"clone_in_protocol_{version}"


for _version in ("0", "1", "2"):
    _clone_in(_version)


@row("protocol", "fetch with a compressed negotiation (`Content-Encoding: gzip`)")
async def compressed_negotiation(site: Site) -> None:
    """Many tips make many `have` lines."""
    clone = await site.clone()
    stream = "".join(f"commit refs/heads/own{n}\ncommitter J <j@x> {4_000_000_000 + n} +0000\ndata 1\nx\n" for n in range(40))
    (clone / "stream").write_text(stream)
    await site.git("-c", "alias.feed=!git fast-import --quiet <stream", "feed", cwd=clone)
    tree = await site.ref("refs/heads/main^{tree}")
    new = (await site.client("commit-tree", tree, "-m", "new", cwd=site.server.path())).out.strip()
    _write_ref(site.server.path(), "refs/heads/fresh", new)
    await site.git("fetch", "-q", cwd=clone)
    assert site.heard("content-encoding") == {"gzip"}
    assert (await site.git("rev-parse", "origin/fresh", cwd=clone)).strip() == new


@row("refs", "`ls-remote` of one pattern")
async def ls_remote(site: Site) -> None:
    """Only what was asked for is listed."""
    listed = await site.git("ls-remote", site.url, "refs/tags/*")
    assert [line.split("\t")[1] for line in listed.splitlines()] == ["refs/tags/v1", "refs/tags/v2", "refs/tags/v2^{}"]


@row("refs", "clone of an empty repository learns the name of its unborn branch")
async def unborn_head(site: Site) -> None:
    """HEAD names a branch that does not exist yet."""
    project = type(PROJECT)("team", "empty")
    await site.server.repositories.create(project)
    await site.client("symbolic-ref", "HEAD", "refs/heads/trunk", cwd=site.server.path(project))
    await site.git("-c", "init.defaultBranch=other", "clone", "-q", site.server.url(project), str(site.folder / "empty"))
    assert await site.git("symbolic-ref", "HEAD", cwd=site.folder / "empty") == "refs/heads/trunk\n"


@row("refs", "`remote set-head --auto`")
async def set_head(site: Site) -> None:
    """The default branch is told."""
    clone = await site.clone()
    await site.git("remote", "set-head", "origin", "--delete", cwd=clone)
    await site.git("remote", "set-head", "origin", "--auto", cwd=clone)
    assert await site.git("symbolic-ref", "refs/remotes/origin/HEAD", cwd=clone) == "refs/remotes/origin/main\n"


@row("refs", "clone of a single branch")
async def single_branch(site: Site) -> None:
    """No other branch comes along."""
    clone = await site.clone("--single-branch", "--branch=dev", "--no-tags")
    assert await site.log(clone) == ["d1", "c3", "c2", "c1"]
    assert (await site.git("for-each-ref", "--format=%(refname)", "refs/remotes", "refs/tags", cwd=clone)).split() == ["refs/remotes/origin/dev"]


@row("refs", "clone of a tag")
async def clone_of_a_tag(site: Site) -> None:
    """A detached HEAD at the tag's commit."""
    assert await site.log(await site.clone("--branch=v2", "-c", "advice.detachedHead=false")) == HISTORY[1:]


@row("refs", "clone brings tags, annotated ones as objects")
async def tags_come_along(site: Site) -> None:
    """A light tag is its commit, an annotated one an object."""
    clone = await site.clone()
    kinds = await site.git("for-each-ref", "--format=%(refname:short) %(objecttype)", "refs/tags", cwd=clone)
    assert kinds.splitlines() == ["v1 commit", "v2 tag"]


@row("refs", "`clone --mirror` and `fetch --prune` of a branch that is gone")
async def mirror_and_prune(site: Site) -> None:
    """A mirror follows deletions."""
    clone = await site.clone("--mirror")
    await site.client("update-ref", "-d", "refs/heads/dev", cwd=site.server.path())
    await site.git("fetch", "-q", "--prune", cwd=clone)
    assert (await site.git("for-each-ref", "--format=%(refname)", "refs/heads", cwd=clone)).split() == ["refs/heads/main"]


def _fetch_by_id_in(version: str) -> None:
    @row("refs", f"fetch of a commit by its id, protocol version {version}")
    async def fetch(site: Site) -> None:
        wanted = await site.ref("refs/heads/main~2")
        work = site.folder / "work"
        await site.git("init", "-q", str(work))
        await site.git("-c", f"protocol.version={version}", "fetch", "-q", site.url, wanted, cwd=work)
        assert await site.log(work, "FETCH_HEAD") == HISTORY[2:]

    fetch.__name__ = f"fetch_by_id_in_protocol_{version}"


for _version in ("0", "2"):
    _fetch_by_id_in(_version)


@row("refs", "fetch of 20 changed branches")
async def many_changed_branches(site: Site) -> None:
    """Each is moved."""
    clone = await site.clone()
    tree, main = await site.ref("refs/heads/main^{tree}"), await site.ref("refs/heads/main")
    tips = [(await site.client("commit-tree", tree, "-p", main, "-m", f"{n}", cwd=site.server.path())).out.strip() for n in range(20)]
    for number, tip in enumerate(tips):
        _write_ref(site.server.path(), f"refs/heads/b{number}", tip)
    await site.git("fetch", "-q", cwd=clone)
    found = (await site.git("for-each-ref", "--format=%(objectname)", "refs/remotes/origin/b*", cwd=clone)).split()
    assert sorted(found) == sorted(tips)


def _write_ref(repository: Path, name: str, value: str) -> None:
    (repository / name).write_text(f"{value}\n")


@row("shallow", "`clone --depth 1`")
async def depth_one(site: Site) -> None:
    """One commit."""
    assert await site.log(await site.clone("--depth=1")) == ["c5"]


@row("shallow", "`fetch --deepen`")
async def deepen(site: Site) -> None:
    """Two more."""
    clone = await site.clone("--depth=1")
    await site.git("fetch", "-q", "--deepen=2", cwd=clone)
    assert await site.log(clone) == HISTORY[:3]


@row("shallow", "`fetch --unshallow`")
async def unshallow(site: Site) -> None:
    """All."""
    clone = await site.clone("--depth=2")
    await site.git("fetch", "-q", "--unshallow", cwd=clone)
    assert await site.log(clone) == HISTORY
    assert not (clone / ".git" / "shallow").exists()


@row("shallow", "`clone --shallow-since`")
async def shallow_since(site: Site) -> None:
    """Commits after a date."""
    assert await site.log(await site.clone("--shallow-since=2024-01-04T12:00:00Z")) == HISTORY[:2]


@row("shallow", "`clone --shallow-exclude`")
async def shallow_exclude(site: Site) -> None:
    """Commits that a tag does not reach."""
    assert await site.log(await site.clone("--shallow-exclude=v1")) == HISTORY[:3]


@row("shallow", "fetch of a new commit into a shallow clone")
async def fetch_into_shallow(site: Site) -> None:
    """It grows at its top."""
    clone = await site.clone("--depth=1", "--branch=main")
    tree, main = await site.ref("refs/heads/main^{tree}"), await site.ref("refs/heads/main")
    new = (await site.client("commit-tree", tree, "-p", main, "-m", "c6", cwd=site.server.path())).out.strip()
    await site.client("update-ref", "refs/heads/main", new, cwd=site.server.path())
    await site.git("pull", "-q", cwd=clone)
    assert await site.log(clone) == ["c6", "c5"]


async def _missing(site: Site, clone: Path) -> int:
    listed = await site.git("rev-list", "--objects", "--all", "--missing=print", cwd=clone)
    return sum(line.startswith("?") for line in listed.splitlines())


@row("partial", "clone with `blob:none`, checkout later")
async def blob_none(site: Site) -> None:
    """Blobs come when they are checked out."""
    clone = await site.clone("--filter=blob:none", "--no-checkout")
    assert await _missing(site, clone) == 8
    await site.git("checkout", "-q", "v1", cwd=clone)
    assert (clone / "a.txt").read_text() == "2\n"
    assert (clone / "big.bin").read_bytes() == BIG


@row("partial", "clone with `blob:limit`, checkout later")
async def blob_limit(site: Site) -> None:
    """Only the large blob is left out."""
    clone = await site.clone("--filter=blob:limit=1k", "--no-checkout")
    assert await _missing(site, clone) == 1
    await site.git("checkout", "-q", "main", cwd=clone)
    assert (clone / "big.bin").read_bytes() == BIG


@row("partial", "clone with `tree:0`, checkout later")
async def tree_zero(site: Site) -> None:
    """Trees come too when they are needed."""
    clone = await site.clone("--filter=tree:0", "--no-checkout")
    assert await site.log(clone) == HISTORY
    await site.git("checkout", "-q", "v2", cwd=clone)
    assert (clone / "dir" / "b.txt").read_text() == "b\n"


@row("object format", "clone, push and fetch of a SHA-256 repository")
async def sha256(site: Site) -> None:
    """Ids of 64 digits all the way."""
    project = type(PROJECT)("team", "modern")
    await site.server.repositories.create(project, object_format="sha256")
    work = site.folder / "modern"
    await site.git("init", "-q", "--initial-branch=main", "--object-format=sha256", str(work))
    await site.git("remote", "add", "origin", site.server.url(project), cwd=work)
    commit = await site.commit(work, {"a.txt": "a"})
    await site.git("push", "-q", "origin", "main", cwd=work)
    again = site.folder / "again"
    await site.git("clone", "-q", site.server.url(project), str(again))
    assert (len(commit), (await site.git("rev-parse", "HEAD", cwd=again)).strip()) == (64, commit)
