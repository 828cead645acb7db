"""The Dockerfile: linted, and of what the repository says elsewhere. It is not built here."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.manifests.rendering import ROOT

DOCKERFILE = ROOT / "Dockerfile"


def test_the_linter_is_content() -> None:
    """Hadolint finds nothing."""
    hadolint = shutil.which("hadolint", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([hadolint, "--no-color", str(DOCKERFILE)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_it_takes_what_the_wheel_is_made_of() -> None:
    """Every package of the wheel is copied, and let through to the builder."""
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    copied = re.findall(r"^COPY (\w+) \1$", DOCKERFILE.read_text(), re.MULTILINE)
    let_through = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert copied == packages
    assert sorted(let_through) == sorted([*packages, "requirements.lock", "pyproject.toml", "README.md"])


def test_it_runs_as_the_manifests_say() -> None:
    """It runs as the user of the pods, from a base that is named by version, and every package is checked by its hash."""
    text = DOCKERFILE.read_text()
    assert re.findall(r"^USER (.+)$", text, re.MULTILINE) == ["65532:65532"]
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert len(set(bases)) == 1
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+(@sha256:[0-9a-f]{64})?", bases[0])
    assert "--require-hashes" in text
