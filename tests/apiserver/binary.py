"""The Kubernetes control plane as one binary of our own, built once from Go modules: `python -m tests.apiserver.binary` builds it ahead.

Owns the cache folder `$XDG_CACHE_HOME/arena-apiserver/<key>` (default: ~/.cache), whose key covers everything that shapes the binary. Must not
know how the programs are started.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).parent / "server"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
VERSION = "v1.34.4"
_PACKAGE = "k8s.io/component-base/version"
_FLAGS = f"-s -w -X {_PACKAGE}.gitVersion={VERSION} -X {_PACKAGE}.gitMajor=1 -X {_PACKAGE}.gitMinor=34"
_BUILD_LIMIT_S = 2400


class BinaryMissing(Exception):
    """There is no binary and no Go to build it with."""


def folder() -> Path:
    """Return the folder of the binary of these sources, which need not exist."""
    digest = hashlib.sha256(_FLAGS.encode())
    for name in ("go.mod", "go.sum", "main.go"):
        digest.update((SOURCE / name).read_bytes())
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "arena-apiserver" / digest.hexdigest()[:16]


def programs() -> Path:
    """Return the folder that holds the four programs, building them first where they are missing: 4 to 10 minutes on two cores.

    Of many who ask at once one builds and the others wait.

    Raises:
        BinaryMissing: nothing is built and `go` is not on PATH.
        subprocess.CalledProcessError: the build failed; its output has gone to stderr.
    """
    found = folder()
    if _is_whole(found):
        return found
    go = shutil.which("go")
    if go is None:
        raise BinaryMissing(f"no API server in {found}, and no Go on PATH to build one")
    with _locked(found.with_suffix(".lock")):
        if not _is_whole(found):
            _build(go, found)
    return found


def _is_whole(built: Path) -> bool:
    return all((built / name).exists() for name in PROGRAMS)


def _build(go: str, target: Path) -> None:
    """Build beside the target and rename: a build that was interrupted leaves nothing that looks whole."""
    unfinished = target.with_suffix(f".{os.getpid()}")
    unfinished.mkdir()
    try:
        subprocess.run(
            ["nice", go, "build", "-p", "2", "-mod=readonly", "-ldflags", _FLAGS, "-o", str(unfinished / "server"), "."],
            cwd=SOURCE,
            env={**os.environ, "CGO_ENABLED": "0"},
            stdout=sys.stderr,
            timeout=_BUILD_LIMIT_S,
            check=True,
        )
        for name in PROGRAMS:
            (unfinished / name).symlink_to("server")
        shutil.rmtree(target, ignore_errors=True)  # what somebody took pieces out of
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        print(programs())  # noqa: T201 - the answer of a command
    except BinaryMissing as error:
        print(f"skipped: {error}", file=sys.stderr)  # noqa: T201
