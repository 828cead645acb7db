"""Whether several processes, on several machines, may share a content volume.

Owns the rules about its mount (ADR 0014) and a trial of its locks between two processes of this machine. Whether locks reach other machines only
another machine can tell: `ReplicaWatch`. Blocking. Must not know what lies on the volume.
"""

import errno
import fcntl
import os
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gitops.errors import VolumeUnfit

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK_FILES = frozenset({"nfs", "nfs4"})
_NO_FILE_SYSTEMS = ("cifs", "smb", "9p", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.goofys", "fuse.mount-s3", "fuse.blobfuse")
_NFS_FAULTS = {
    "nolock": "its locks do not leave this machine (nolock)",
    "local_lock=all": "its locks do not leave this machine (local_lock=all)",
    "local_lock=flock": "its locks do not leave this machine (local_lock=flock)",
    "nocto": "what other machines write is not looked for (nocto)",
    "soft": "a write may be given up while the server is away (soft)",
    "softerr": "a write may be given up while the server is away (softerr)",
}
_REMEDY = "mount NFS 4.1 or newer with hard and without nolock, local_lock, nocto and soft, or CephFS"
_TRIAL_S = 30.0
_TRIAL = """
import fcntl, sys
try:
    fcntl.flock(open(sys.argv[1], "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(7)
"""
_REFUSED = 7
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})


@dataclass(frozen=True, slots=True)
class Mount:
    """How a directory is mounted: the kind of file system and its options, those of the mount and of the file system together."""

    kind: str
    options: frozenset[str]

    @property
    def version(self) -> str:
        """The version of the protocol; empty when the kind has none."""
        return next((option.removeprefix("vers=") for option in sorted(self.options) if option.startswith("vers=")), "")


def check_volume(root: Path) -> None:
    """Try the volume's locks between two processes, and look at how it is mounted. Takes about 50 ms.

    Raises:
        VolumeUnfit: writers of one repository could not be kept apart here; the hint says how to mount it.
        OSError: the volume cannot be written.
    """
    mount = mount_of(root)
    if mount is not None and (fault := mount_fault(mount)):
        raise VolumeUnfit(f"cannot share content volume '{root}': {fault}", hint=_REMEDY)
    if fault := _lock_fault(root):
        raise VolumeUnfit(f"cannot share content volume '{root}': {fault}", hint=_REMEDY)


def mount_fault(mount: Mount) -> str:
    """Say why replicas on several machines could not share a volume that is mounted so; "" when they can."""
    if mount.kind.startswith(_NO_FILE_SYSTEMS):
        return f"it is {mount.kind}, which renames no open file or has no locks between machines"
    if mount.kind not in _NETWORK_FILES:
        return ""
    faults = [words for bad, words in _NFS_FAULTS.items() if bad in mount.options]
    if mount.version.startswith(("2", "3")):
        faults.insert(0, f"NFS {mount.version} keeps the locks of a machine that died")
    return faults[0] if faults else ""


def mount_of(path: Path, mounts: Path = _MOUNTS) -> Mount | None:
    """Return how the file system that holds `path` is mounted; None where the system does not say (proc(5), "mountinfo")."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    wanted, best, found = path.resolve(), -1, None
    for line in lines:
        before, _, after = line.partition(" - ")
        left, right = before.split(" "), after.split(" ")
        point = Path(left[4].encode("utf-8", "surrogateescape").decode("unicode_escape"))
        if wanted.is_relative_to(point) and len(point.parts) >= best:  # of two mounts at one place the later one lies on top
            best, found = len(point.parts), Mount(right[0], frozenset([*left[5].split(","), *right[2].split(",")]))
    return found


def _lock_fault(root: Path) -> str:
    path = root / f".tmp-{secrets.token_hex(6)}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        words = [sys.executable, "-I", "-S", "-c", _TRIAL, str(path)]
        status = subprocess.run(words, capture_output=True, timeout=_TRIAL_S, check=False).returncode  # noqa: S603 - our own words
    except BlockingIOError:
        return "a lock that nobody holds is refused"
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return f"it has no locks ({error.strerror})"
        raise
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)
    return "" if status == _REFUSED else "a lock does not keep another process out"
