"""Parts: appended lines are found by offset and believed only if whole."""

import errno
import hashlib
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.errors import OutputUnavailable
from engine.items import Verdict
from engine.records import PlacedLine, Record
from engine.results.parts import PARTS, PartReader, PartWriter, read_line, scan_parts

AT = datetime(2026, 3, 1, tzinfo=UTC)


def record_at(place: PlacedLine) -> Record:
    """Return a record whose line lies at `place`."""
    return Record("a/b/1", 0, Verdict.PASS, AT, AT, part=place.part, offset=place.offset, length=place.length, sha256=place.sha256)


def test_lines_are_read_back_by_their_places(tmp_path: Path) -> None:
    """Each appended line is returned by its place, whatever batch it came in."""
    writer = PartWriter(tmp_path / PARTS / "w-1.jsonl")
    places = [*writer.append([b"one", b"two"]), *writer.append([b"three"])]
    writer.sync()
    writer.close()
    assert [read_line(tmp_path, record_at(place)) for place in places] == [b"one", b"two", b"three"]


def test_a_part_belongs_to_one_writer(tmp_path: Path) -> None:
    """A part that exists is never opened for writing again."""
    PartWriter(tmp_path / "w.jsonl").close()
    with pytest.raises(OutputUnavailable):
        PartWriter(tmp_path / "w.jsonl")


def test_a_torn_line_is_not_there(tmp_path: Path) -> None:
    """A line whose end was lost is neither read by its place nor found by a scan."""
    writer = PartWriter(tmp_path / PARTS / "w.jsonl")
    whole, torn = writer.append([b"whole", b"torn line"])
    writer.close()
    path = tmp_path / PARTS / "w.jsonl"
    os.truncate(path, path.stat().st_size - 4)
    assert read_line(tmp_path, record_at(torn)) is None
    assert list(scan_parts(tmp_path)) == [(whole, b"whole")]


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(PlacedLine("../secret.jsonl", 0, 4, "0" * 64), id="a name that leaves the directory"),
        pytest.param(PlacedLine("gone.jsonl", 0, 4, "0" * 64), id="a part that is gone"),
        pytest.param(PlacedLine("w.jsonl", 0, 3, "0" * 64), id="other bytes"),
        pytest.param(PlacedLine("w.jsonl", -1, 3, "0" * 64), id="a negative offset"),
        pytest.param(PlacedLine("w.jsonl", 0, 1 << 40, "0" * 64), id="an absurd length"),
        pytest.param(PlacedLine("", 0, 0, ""), id="no line at all"),
    ],
)
def test_a_place_that_does_not_hold_yields_nothing(tmp_path: Path, place: PlacedLine) -> None:
    """A record's place is checked, never trusted."""
    writer = PartWriter(tmp_path / PARTS / "w.jsonl")
    writer.append([b"one"])
    writer.close()
    assert read_line(tmp_path, record_at(place)) is None


@pytest.mark.parametrize("planted", ["pipe", "link", "socket", "directory"])
def test_what_a_worker_planted_in_place_of_a_part_yields_nothing(tmp_path: Path, planted: str) -> None:
    """Only a file holds lines: whatever else has the name of a part is neither followed nor waited for."""
    parts = tmp_path / PARTS
    parts.mkdir()
    (tmp_path / "secret").write_bytes(b"word\n")
    place = PlacedLine("w.jsonl", 0, 4, hashlib.sha256(b"word").hexdigest())
    with socket.socket(socket.AF_UNIX) as bound:
        match planted:
            case "pipe":
                os.mkfifo(parts / place.part)
            case "link":
                (parts / place.part).symlink_to(tmp_path / "secret")
            case "socket":
                bound.bind(os.path.relpath(parts / place.part))
            case _:
                (parts / place.part).mkdir()
        assert read_line(tmp_path, record_at(place)) is None
        assert list(scan_parts(tmp_path)) == []


def test_many_parts_need_few_open_files(tmp_path: Path) -> None:
    """A reader keeps a bounded number of parts open and still reads every line."""
    places = []
    for number in range(80):
        writer = PartWriter(tmp_path / PARTS / f"w-{number}.jsonl")
        places += writer.append([b"%d" % number])
        writer.close()
    before = len(list(Path("/proc/self/fd").iterdir()))
    reader = PartReader(tmp_path)
    assert [reader.line(record_at(place)) for place in places] == [b"%d" % number for number in range(80)]
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 32
    reader.close()


def test_a_full_disk_closes_the_part() -> None:
    """When the disk takes less than all, the error says so and the part takes no more."""
    writer = PartWriter.__new__(PartWriter)
    writer._path, writer._offset, writer._named = Path("/dev/full"), 0, True
    writer._descriptor = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OutputUnavailable, match=os.strerror(errno.ENOSPC)):
        writer.append([b"x"])
    with pytest.raises(OutputUnavailable):
        writer.append([b"y"])


def test_a_run_without_parts_has_no_lines(tmp_path: Path) -> None:
    """Scanning a directory that no worker wrote to yields nothing."""
    assert list(scan_parts(tmp_path)) == []
