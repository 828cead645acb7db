"""Containers with a view of files of their own: mounts where the manifest says, a read-only root, the user of the manifest.

A mount namespace for each, made by `unshare`, whose root holds the system, this program and the mounts. Ports are still the machine's.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.apiserver.kubelet_container import Process

_SYSTEM = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/opt")
_KERNEL = ("/proc", "/dev", "/sys")
_CHROOT = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin") or "chroot"
_REPOSITORY = Path(__file__).parents[2]
_PROGRAM = (_REPOSITORY, Path(sys.prefix), Path(sys.base_prefix))


def rooms_can_be_made() -> bool:
    """Say whether this machine lets us make mount namespaces."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False).returncode == 0


def in_room(process: Process, home: Path) -> Process:
    """Have a process run in a room of its own, as the user that its securityContext names; it has no capability and gains none."""
    home.mkdir(parents=True, exist_ok=True)
    script = home / f"{process.name}.sh"
    script.write_text("\n".join(_script(process, home / f"{process.name}.root")) + "\n")
    return replace(process, words=("unshare", "--mount", "sh", str(script), *process.words))


def _script(process: Process, root: Path) -> Iterator[str]:
    yield "set -e"
    yield f"root={shlex.quote(str(root))}"
    yield 'mkdir -p "$root"'
    yield 'mount -t tmpfs -o mode=0755 tmpfs "$root"'
    for path in map(Path, _SYSTEM):
        if path.is_symlink():
            yield f'cp -P {path} "$root{path}"'
        elif path.is_dir():
            yield from _bound(str(path), path)
    for name in _KERNEL:
        yield from _bound(name, Path(name))
    mounts = sorted(process.mounts, key=lambda mount: len(mount.path))
    for mount in mounts:
        yield from _bound(mount.path, mount.folder)
        if mount.is_read_only:
            yield f'mount -o remount,bind,ro "$root"{shlex.quote(mount.path)}'
    for path in dict.fromkeys(_PROGRAM):  # after the mounts: one of /tmp must not hide it
        if not path.is_relative_to("/usr"):
            yield from _bound(str(path), path)
    if process.security.get("readOnlyRootFilesystem"):
        yield 'mount -o remount,ro "$root"'
    user, group = process.security.get("runAsUser", 0), process.security.get("runAsGroup", 0)
    groups = process.security.get("fsGroup", group)
    bare = "--bounding-set=-all --inh-caps=-all" if process.security.get("capabilities", {}).get("drop") else ""
    yield f'exec {_CHROOT} "$root" setpriv --reuid {user} --regid {group} --groups {groups} --no-new-privs {bare} --pdeathsig KILL -- "$@"'


def _bound(path: str, folder: Path) -> Iterator[str]:
    place = f'"$root"{shlex.quote(path)}'
    yield f"mkdir -p {place}"
    yield f"mount --rbind {shlex.quote(str(folder))} {place}"
