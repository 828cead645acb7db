"""The dialogue with git about raw objects."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from gitops.errors import GitFailed
from gitops.object_reader import CHUNK_BYTES, ObjectReader

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gitops.snapshots.conftest import Forge


@pytest.mark.usefixtures("both_formats")
def test_objects_come_in_the_order_asked(forge: Forge) -> None:
    """Kinds, sizes and contents of many objects are exact, in more than one window of requests, large ones in chunks."""
    blobs = [b"%d" % n * (n % 50) for n in range(450)] + [b"x" * CHUNK_BYTES, b"y" * (CHUNK_BYTES + 1), b"z" * (3 * CHUNK_BYTES)]
    ids = [forge.put("blob", blob) for blob in blobs]
    with ObjectReader(forge.path) as reader:
        assert reader.sizes(ids) == [len(blob) for blob in blobs]
        assert list(reader.contents(ids, limit_bytes=4 * CHUNK_BYTES)) == blobs
        assert [content is None for content in reader.contents(ids[-3:], limit_bytes=CHUNK_BYTES)] == [False, True, True]
        assert [max(map(len, content.chunks)) for content in reader.stream(ids[-2:])] == [CHUNK_BYTES] * 2
        assert reader.kind(ids[0]) == (ids[0], "blob")
        assert reader.kind("0" * len(ids[0])) is None


def test_a_missing_object_is_named(forge: Forge) -> None:
    """Asking for an object that is not there fails with its id."""
    with ObjectReader(forge.path) as reader, pytest.raises(GitFailed, match=f"cannot read object '{'0' * 40}': it is missing"):
        reader.sizes(["0" * 40])


def test_it_is_no_repository(tmp_path: Path) -> None:
    """Where no repository is, git's own words are the cause."""
    with ObjectReader(tmp_path) as reader, pytest.raises(GitFailed, match=r"cannot read objects: .*not a git repository"):
        reader.sizes(["0" * 40])


def test_a_reader_may_be_left_at_any_time(forge: Forge) -> None:
    """Closing amid a large object ends the process and waits for nothing."""
    blob = forge.put("blob", b"x" * (8 * CHUNK_BYTES))
    with ObjectReader(forge.path) as reader:
        content = next(iter(reader.stream([blob])))
        assert len(next(iter(content.chunks))) == CHUNK_BYTES
    reader.close()


def test_time_is_limited(forge: Forge) -> None:
    """A process that takes too long is ended, and the failure says so."""
    unknown = "0" * 40
    with ObjectReader(forge.path, timeout_s=0.0) as reader, pytest.raises(GitFailed, match="git took too long"):
        all(reader.kind(unknown) is None for _ in itertools.count())
