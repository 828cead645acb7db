"""A state directory made of a backup, whole or not at all.

The archive is read in full and judged before anything is written; it is unpacked beside the place and renamed into it. The installation gets a new id,
so that it never meets the one that the backup was taken of on a queue server that both use; what carried the old id (`.owner` of run directories) is
marked anew. Every repository gets the configuration of a new one: a foreign archive's could name programs that git runs.
"""

import contextlib
import errno
import os
import secrets
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from arena.errors import RestoreRefused
from arena.local.archive import CONTENT, DATABASE, DIGESTS, HEADER, TOKEN, Header, check, digest_of, reading
from arena.local.state import StateDirectory, state_unusable
from foundation.files import sync_directory
from gitops.repository_config import reset_config
from reconcile.cluster.sqlite_reading import KNOWN_SCHEMA, StoreReading
from reconcile.run.ownership import hand_over

_SECRET_FILES = {DATABASE, TOKEN}


@dataclass(frozen=True, slots=True)
class Restored:
    """What came back. `reconfigured` names the repositories whose own git configuration was another than that of a new one, and is it now."""

    header: Header
    reconfigured: tuple[str, ...]


def restore_backup(archive: Path, state: StateDirectory) -> Restored:
    """Make the state directory of `state` from a backup; return what the backup says of itself, and what was changed.

    Raises:
        RestoreRefused: the archive is not a whole backup, or the directory holds something. Nothing was written.
        StateUnusable: the file system refuses.
    """
    _refuse_used(state.root)
    header, digests = check(archive)
    if header.schema > KNOWN_SCHEMA:
        raise RestoreRefused(
            f"cannot restore '{archive}': its store's schema version is {header.schema}, this program knows up to {KNOWN_SCHEMA}",
            hint="use the arena that wrote it, or a newer one",
        )
    scratch = state.root.with_name(f".{state.root.name}-restoring-{secrets.token_hex(4)}")
    try:
        scratch.parent.mkdir(parents=True, exist_ok=True)
        for folder in (scratch, scratch / CONTENT):
            folder.mkdir(mode=0o700)
        _unpack(archive, scratch, digests)
        restored = StateDirectory(scratch)
        _mark(restored, header.installation)
        _check_store(archive, restored)
        reconfigured = _reset_configs(restored)
        os.sync()
        scratch.rename(state.root)
        sync_directory(state.root.parent)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            _refuse_used(state.root)
        raise state_unusable(state.root, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Restored(header, reconfigured)


def _refuse_used(root: Path) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if root.is_file() or any(root.iterdir()):
            raise RestoreRefused(f"cannot restore into '{root}': it is not empty", hint="name an empty or a new directory with --state DIR")


def _unpack(archive: Path, target: Path, digests: Mapping[str, str]) -> None:
    """Write every member whose name and bytes are still those that were judged."""
    with reading(archive) as tar:
        for member in tar:
            if member.name in (HEADER, DIGESTS):
                continue
            if member.name not in digests:
                raise RestoreRefused(f"cannot restore '{archive}': it changed while it was read")
            _write(tar, member, target / member.name, (archive, digests[member.name]))


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path, judged: tuple[Path, str]) -> None:
    if member.isdir():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = 0o600 if member.name in _SECRET_FILES else member.mode & 0o755 | 0o400
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as copy:
        if digest_of(tar, member, copy) != judged[1]:
            raise RestoreRefused(f"cannot restore '{judged[0]}': '{member.name}' changed while it was read")


def _mark(state: StateDirectory, old: str) -> None:
    """Give the installation its own id, and make the run directories that were the old one's its own."""
    new = state.installation()
    for marker in state.content.glob("*/*/arena/runs/*/.owner"):
        hand_over(marker.parent, old, new)


def _reset_configs(state: StateDirectory) -> tuple[str, ...]:
    """Replace every configuration that is not a new repository's; return the names of those repositories, below the content directory."""
    found = sorted(path for pattern in ("*/*/arena/repos/*.git", "*/*/arena/repos/.retained/*.git") for path in state.content.glob(pattern))
    return tuple(path.relative_to(state.content).as_posix() for path in found if reset_config(path))


def _check_store(archive: Path, state: StateDirectory) -> None:
    with StoreReading(state.database) as store:
        if damage := store.damage():
            raise RestoreRefused(f"cannot restore '{archive}': its store is damaged: {damage}")
