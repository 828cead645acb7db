"""The starter bundle: what `arena init` writes and `arena demo` pushes, shipped as package data.

Owns the two file trees: `files/` passes; `regression/` replaces some of them so that one check of one provider fails.
"""

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

_TREES = {"starter": "files", "regression": "regression"}


def starter_files(name: str = "starter") -> dict[str, bytes]:
    """Return a bundle's files, path -> content, sorted by path. `name` is `starter` (passes whole) or `regression` (only the changed files).

    Raises:
        KeyError: there is no starter of that name.
    """
    root = files("engine.bundle.starter").joinpath(_TREES[name])
    return dict(sorted(_walk(root, "")))


def starter_regression() -> dict[str, bytes]:
    """Return the files that a second commit changes, path -> content: with them, one item of the starter bundle fails."""
    return starter_files("regression")


def _walk(directory: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in directory.iterdir():
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _walk(entry, f"{path}/")
        else:
            yield path, entry.read_bytes()
