"""How a peer is had: installed once, below bench/out/, by its ordinary means."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

_TIMEOUT_S = 900
Peer = TypeVar("Peer")


class Unavailable(Exception):
    """A peer cannot be had here; the message says why."""


def obtainable(installers: Sequence[Callable[[Path], Peer]], folder: Path, only: str | None) -> list[Peer]:
    """Return the peers that can be had, installed below `folder`, naming those that cannot; `only` is a part of the name of those wanted."""
    found = []
    for installer in installers:
        if only and only not in installer.__name__:
            continue
        try:
            found.append(installer(folder))
        except Unavailable as error:
            print(f"skipped: {installer.__name__}: {error}")
    return found


def environment_with(folder: Path, packages: Sequence[str]) -> Path:
    """Return the `bin` folder of a virtual environment of its own in `folder`, made at the first call, with the packages.

    Raises:
        Unavailable: they cannot be installed.
    """
    done = folder / "installed"
    if not done.exists():
        install([sys.executable, "-m", "venv", "--clear", str(folder)])
        install([str(folder / "bin" / "pip"), "install", "--quiet", *packages])
        done.touch()
    return folder / "bin"


def install(argv: Sequence[str]) -> None:
    """Run an installer.

    Raises:
        Unavailable: it failed; the message has the end of what it said.
    """
    try:
        subprocess.run(argv, check=True, capture_output=True, timeout=_TIMEOUT_S, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    except (OSError, subprocess.SubprocessError) as error:
        cause = getattr(error, "stderr", None) or str(error).encode()
        raise Unavailable(cause[-300:].decode(errors="replace").strip().replace("\n", " ")) from error
