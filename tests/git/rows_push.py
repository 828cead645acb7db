"""Rows of the conformance table: what a client that writes does."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.git.conformance import Refused, Site, row

ONLY_MAIN = "only 'refs/heads/main' is hosted here"
NO_FORCE = "commits would be lost"


def _push_in(version: str) -> None:
    @row("protocol", f"push in protocol version {version}")
    async def push(site: Site) -> None:
        work = await site.clone()
        commit = await site.commit(work, {"new.txt": "new"})
        await site.git("-c", f"protocol.version={version}", "push", "-q", "origin", "main", cwd=work)
        assert await site.ref("refs/heads/main") == commit

    push.__name__ = f"push_in_protocol_{version}"


for _version in ("0", "1", "2"):
    _push_in(_version)


@row("protocol", "push in chunks (`http.postBuffer=1`)")
async def chunked_push(site: Site) -> None:
    """The client asks first, then sends chunks."""
    work = await site.clone()
    commit = await site.commit(work, {"noise.bin": os.urandom(200_000)})
    await site.git("-c", "http.postBuffer=1", "push", "-q", "origin", "main", cwd=work)
    assert await site.ref("refs/heads/main") == commit
    assert site.heard("transfer-encoding") == {"chunked"}


@row("packs", "thin pack: a small change of a large file")
async def thin_pack(site: Site) -> None:
    """Only the difference travels, and the stored pack is whole."""
    work = await site.clone()
    noise = os.urandom(150_000)
    await site.commit(work, {"noise.bin": noise})
    await site.git("push", "-q", "origin", "main", cwd=work)
    commit = await site.commit(work, {"noise.bin": noise + b"more"})
    await site.git("push", "-q", "--thin", "origin", "main", cwd=work)
    assert int(site.server.authority.headers[-1]["content-length"]) < 5000
    assert await site.ref("refs/heads/main") == commit
    assert (await site.client("fsck", "--full", "--strict", "--no-dangling", cwd=site.server.path())).err == ""


@row("packs", "push from a shallow clone")
async def push_from_shallow(site: Site) -> None:
    """What the server has need not be sent."""
    work = await site.clone("--depth=1", "--branch=main")
    commit = await site.commit(work, {"new.txt": "new"})
    await site.git("push", "-q", "origin", "main", cwd=work)
    assert await site.ref("refs/heads/main") == commit


@row("branches", "push of a new branch", main=ONLY_MAIN)
async def new_branch(site: Site) -> None:
    """A name with slashes and letters of any script."""
    work = await site.clone()
    commit = await site.commit(work, {"new.txt": "new"})
    await site.git("push", "-q", "origin", "HEAD:refs/heads/feature/größe-✓", cwd=work)
    assert await site.ref("refs/heads/feature/größe-✓") == commit


@row("branches", "push of all branches and tags (`--mirror`)", main=ONLY_MAIN)
async def mirror_push(site: Site) -> None:
    """What the client lacks goes, what it has comes."""
    work = await site.clone("--mirror")
    main = await site.ref("refs/heads/main")
    await site.git("update-ref", "-d", "refs/heads/dev", cwd=work)
    await site.git("update-ref", "refs/heads/other", main, cwd=work)
    await site.git("push", "-q", "--mirror", site.url, cwd=work)
    assert (await site.ref("refs/heads/dev"), await site.ref("refs/heads/other")) == ("", main)


@row("branches", "deletion of a branch", main="remote ref does not exist")
async def delete_branch(site: Site) -> None:
    """The ref is gone."""
    work = await site.clone()
    await site.git("push", "-q", "origin", "--delete", "dev", cwd=work)
    assert await site.ref("refs/heads/dev") == ""


@row("branches", "deletion of main", main="cannot delete 'main'")
async def delete_main(site: Site) -> None:
    """Even the branch that HEAD names."""
    work = await site.clone()
    await site.git("push", "-q", "origin", ":main", cwd=work)
    assert await site.ref("refs/heads/main") == ""


@row("tags", "push of a light tag", main="cannot push to 'refs/tags/v3'")
async def light_tag(site: Site) -> None:
    """It names the commit."""
    work = await site.clone()
    await site.git("tag", "v3", cwd=work)
    await site.git("push", "-q", "origin", "v3", cwd=work)
    assert await site.ref("refs/tags/v3") == await site.ref("refs/heads/main")


@row("tags", "push of an annotated tag with its branch (`--follow-tags`)", main="cannot push to 'refs/tags/v3'")
async def annotated_tag(site: Site) -> None:
    """The tag object arrives."""
    work = await site.clone()
    commit = await site.commit(work, {"new.txt": "new"})
    await site.git("tag", "-a", "-m", "third", "v3", cwd=work)
    await site.git("push", "-q", "--follow-tags", "origin", "main", cwd=work)
    assert await site.ref("refs/tags/v3^{commit}") == commit
    assert (await site.client("cat-file", "-t", "v3", cwd=site.server.path())).out == "tag\n"


@row("tags", "tag of a file", main="cannot push to 'refs/tags/file'")
async def tag_of_a_file(site: Site) -> None:
    """A tag may name any object."""
    work = await site.clone()
    await site.git("tag", "file", "HEAD:a.txt", cwd=work)
    await site.git("push", "-q", "origin", "file", cwd=work)
    assert (await site.client("cat-file", "-t", "refs/tags/file", cwd=site.server.path())).out == "blob\n"


@row("tags", "a tag is moved by force", main="cannot push to 'refs/tags/v1'")
async def move_tag(site: Site) -> None:
    """Without force the client refuses."""
    work = await site.clone()
    await site.git("tag", "-f", "v1", cwd=work)
    await site.git("push", "-q", "--force", "origin", "v1", cwd=work)
    assert await site.ref("refs/tags/v1") == await site.ref("refs/heads/main")


@row("tags", "deletion of a tag", main="cannot delete 'refs/tags/v2'")
async def delete_tag(site: Site) -> None:
    """The ref is gone."""
    work = await site.clone()
    await site.git("push", "-q", "origin", ":refs/tags/v2", cwd=work)
    assert await site.ref("refs/tags/v2") == ""


@row("atomic", "atomic push of two refs", main=ONLY_MAIN)
async def atomic(site: Site) -> None:
    """Both are moved."""
    work = await site.clone()
    commit = await site.commit(work, {"new.txt": "new"})
    await site.git("push", "-q", "--atomic", "origin", "HEAD:main", "HEAD:refs/heads/other", cwd=work)
    assert [await site.ref("refs/heads/main"), await site.ref("refs/heads/other")] == [commit, commit]


@row("atomic", "atomic push of which one ref cannot be moved: none is", main=ONLY_MAIN)
async def atomic_conflict(site: Site) -> None:
    """dev/x clashes with dev."""
    work = await site.clone()
    await site.commit(work, {"new.txt": "new"})
    before = await site.ref("refs/heads/main")
    with pytest.raises(Refused) as refused:
        await site.git("push", "--atomic", "origin", "HEAD:refs/heads/dev/x", "HEAD:main", cwd=work)
    if ONLY_MAIN in str(refused.value):
        raise refused.value
    assert await site.ref("refs/heads/main") == before


@row("push options", "`push -o ci.skip`", main="the receiving end does not support push options")
async def push_options(site: Site) -> None:
    """They are taken, and nobody is told."""
    work = await site.clone()
    commit = await site.commit(work, {"new.txt": "new"})
    await site.git("push", "-q", "-o", "ci.skip", "-o", "topic=größe", "origin", "main", cwd=work)
    assert await site.ref("refs/heads/main") == commit


async def _rewritten(site: Site) -> tuple[Path, str]:
    work = await site.clone()
    await site.git("reset", "-q", "--hard", "HEAD~2", cwd=work)
    return work, await site.commit(work, {"new.txt": "new"})


@row("force", "forced push", main=NO_FORCE)
async def force(site: Site) -> None:
    """Commits are replaced."""
    work, commit = await _rewritten(site)
    await site.git("push", "-q", "--force", "origin", "main", cwd=work)
    assert await site.ref("refs/heads/main") == commit


@row("force", "`--force-with-lease`, the lease holds", main=NO_FORCE)
async def lease_holds(site: Site) -> None:
    """Main is what the client last saw."""
    work, commit = await _rewritten(site)
    await site.git("push", "-q", "--force-with-lease", "origin", "main", cwd=work)
    assert await site.ref("refs/heads/main") == commit


@row("force", "`--force-with-lease`, the lease is stale: refused")
async def lease_is_stale(site: Site) -> None:
    """Main is another than the client expects."""
    work, _ = await _rewritten(site)
    before = await site.ref("refs/heads/main")
    with pytest.raises(Refused, match="stale info"):
        await site.git("push", f"--force-with-lease=main:{'1' * 40}", "origin", "main", cwd=work)
    assert await site.ref("refs/heads/main") == before


@row("force", "push that is no fast-forward: refused")
async def no_fast_forward(site: Site) -> None:
    """The client says what to do."""
    work, _ = await _rewritten(site)
    with pytest.raises(Refused, match="non-fast-forward"):
        await site.git("push", "origin", "main", cwd=work)


async def _race(site: Site, ref: str) -> None:
    commits = {}
    for number in range(4):
        work = await site.clone("--branch=main", name=f"racer{number}")
        commits[work] = await site.commit(work, {f"{number}.txt": f"{number}"})
    runs = await asyncio.gather(*(site.client("push", "-q", "origin", f"HEAD:{ref}", cwd=work, check=False) for work in commits))
    won = [commit for run, commit in zip(runs, commits.values(), strict=True) if run.status == 0]
    losers = [run for run in runs if run.status != 0]
    if losers and all(ONLY_MAIN in run.err for run in losers):
        raise Refused(losers[0])
    assert won == [await site.ref(ref)]
    told = ("was moved meanwhile; run `git fetch`, then push again", "[rejected]")
    assert all(any(words in run.err for words in told) for run in losers), [run.err for run in losers]


@row("concurrency", "four pushes to main at once: one wins, the others are told")
async def race_to_main(site: Site) -> None:
    """None is lost in silence."""
    await _race(site, "refs/heads/main")


@row("concurrency", "four pushes of one new branch at once: one wins, the others are told", main=ONLY_MAIN)
async def race_to_a_new_branch(site: Site) -> None:
    """None is lost in silence."""
    await _race(site, "refs/heads/new")


@row("names", "a branch below another's name (`dev/x` beside `dev`): refused", main=ONLY_MAIN)
async def directory_conflict(site: Site) -> None:
    """A name cannot be a directory of names too."""
    work = await site.clone()
    with pytest.raises(Refused) as refused:
        await site.git("push", "origin", "HEAD:refs/heads/dev/x", cwd=work)
    if ONLY_MAIN in str(refused.value):
        raise refused.value
    assert "error: cannot create 'dev/x': 'dev' exists" in str(refused.value)


ODD_NAMES = (
    "-dash.txt",
    "--help",
    "a b.txt",
    "emoji-🎉.txt",
    "new\nline.txt",
    "tab\t.txt",
    'quo"te.txt',
    "back\\slash.txt",
    "%41.txt",
    "größe/日本.txt",
)


@row("names", "odd file names arrive as they are: leading dash, spaces, emoji, newline, quotes, backslash")
async def odd_names(site: Site) -> None:
    """In a C locale too: the client of these tests has one."""
    work = await site.clone()
    await site.commit(work, {name: name for name in ODD_NAMES})
    await site.git("push", "-q", "origin", "main", cwd=work)
    again = await site.clone(name="again")
    assert all((again / name).read_text() == name for name in ODD_NAMES)


def _refused_name(title: str, name: bytes, said: str) -> None:
    @row("names", f"{title}: refused, naming the path")
    async def push(site: Site) -> None:
        work = await site.clone()
        blob = (await site.git("rev-parse", "HEAD:a.txt", cwd=work)).strip()
        (work / "listing").write_bytes(b"100644 blob " + blob.encode() + b"\t" + name + b"\0")
        tree = (await site.git("-c", "alias.make=!git mktree -z <listing", "make", cwd=work)).strip()
        commit = (await site.git("commit-tree", "-m", "odd", "-p", "HEAD", tree, cwd=work)).strip()
        with pytest.raises(Refused) as refused:
            await site.git("push", "origin", f"{commit}:main", cwd=work)
        lines = [line for line in str(refused.value).splitlines() if line.startswith("remote: error: cannot")]
        assert len(lines) == 1
        assert said in lines[0]

    push.__name__ = f"refused_name_{title.replace(' ', '_').replace('`', '')}"


_refused_name("a name that is not UTF-8", b"caf\xe9.txt", "'caf\\xe9.txt' is not UTF-8")
_refused_name("`.GIT` as a file name", b".GIT", "'.GIT' is a forbidden name")
_refused_name("`git~1` as a file name", b"git~1", "'git~1' is a forbidden name")
_refused_name("a name of 300 bytes", b"x" * 300, "is too long")
