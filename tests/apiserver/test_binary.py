"""The tests' API server is built once, whole or not at all, and its absence is said."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.apiserver.binary import PROGRAMS, BinaryMissing, folder, programs

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a PATH on which there is no Go."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "cache"


def compiler(place: Path, ending: str = "") -> Path:
    """Put a program named go on the PATH that notes each start and writes what it is told to; return its notes."""
    program, notes = place / "go", place / "notes"
    lines = ["#!/bin/sh", f"echo $$ >> {notes}", "sleep 0.2", 'while [ "$1" != -o ]; do shift; done', 'echo binary > "$2"', ending]
    program.write_text("\n".join(lines))
    program.chmod(0o755)
    return notes


def test_without_go(cache: Path) -> None:
    """Where nothing is built and there is no Go, that is an error of its own, and nothing is left behind."""
    with pytest.raises(BinaryMissing, match="no Go on PATH"):
        programs()
    assert not cache.exists()


def test_it_is_built_once(cache: Path, tmp_path: Path) -> None:
    """Of several processes that need it at once one builds it, and all find four programs; later ones find them without Go."""
    notes = compiler(tmp_path)
    command = [sys.executable, "-m", "tests.apiserver.binary"]
    builders = [subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": "."}, stdout=subprocess.PIPE) for _ in range(3)]
    found = {builder.communicate(timeout=60)[0].decode().strip() for builder in builders}
    assert found == {str(folder())}
    assert len(notes.read_text().splitlines()) == 1
    (tmp_path / "go").unlink()
    assert sorted(path.name for path in programs().iterdir()) == sorted([*PROGRAMS, "server"])
    assert folder().is_relative_to(cache)


def test_a_build_that_fails_leaves_nothing(cache: Path, tmp_path: Path) -> None:
    """A build that fails is told, and the next one begins anew."""
    notes = compiler(tmp_path, ending="exit 1")
    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError):
            programs()
    assert len(notes.read_text().splitlines()) == 2
    assert [path.suffix for path in (cache / "arena-apiserver").iterdir()] == [".lock"]
