"""The SQLite file under the embedded store: opening, migrating, and what its failures mean.

Owns the file's mode (0600), its pragmas, its schema and the schema's version. Must not know what an object is.
"""

import errno
import os
import sqlite3
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from reconcile.errors import StoreCorrupt, StoreFull, StoreReadOnly, StoreTooNew, StoreUnavailable

MEMORY = ":memory:"
APPLICATION_ID = 0x4172656E
"""`Aren`, in the file's header: tells our stores from any other SQLite file."""

BUSY_TIMEOUT_S = 5.0
_FULL_BELOW_BYTES = 64 * 1024
_RESTORE_HINT = "stop arena, move the file away with its -wal and -shm, and restore a copy; repositories and results are not in it"

_OBJECTS = """
    CREATE TABLE objects (
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, uid TEXT NOT NULL UNIQUE,
        changed REAL NOT NULL, body TEXT NOT NULL, UNIQUE (kind, namespace, name))
"""
_LOG = """
    CREATE TABLE log (
        version INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL, type TEXT NOT NULL, labels TEXT,
        body TEXT NOT NULL)
"""
_FILL_FIELDS = """
    INSERT INTO fields (key, value, object)
    SELECT '{path}', CASE json_type(body, '$.{path}') WHEN 'text' THEN json_extract(body, '$.{path}') ELSE '' END, id
    FROM objects WHERE kind = 'ArenaRun'
"""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
        "INSERT INTO meta VALUES ('version', 1)",  # a listing of an empty store must not read as version 0, which means none
        _OBJECTS,
        "CREATE TABLE labels (key TEXT NOT NULL, value TEXT NOT NULL, object INTEGER NOT NULL, PRIMARY KEY (key, value, object)) WITHOUT ROWID",
        "CREATE INDEX labels_by_object ON labels (object)",
        "CREATE TABLE owners (owner TEXT NOT NULL, object INTEGER NOT NULL, PRIMARY KEY (owner, object)) WITHOUT ROWID",
        "CREATE INDEX owners_by_object ON owners (object)",
        _LOG,
        "CREATE INDEX log_by_kind ON log (kind, version)",
        "CREATE TABLE compacted (kind TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID",
    ),
    (
        "CREATE TABLE fields (key TEXT NOT NULL, value TEXT NOT NULL, object INTEGER NOT NULL, PRIMARY KEY (key, value, object)) WITHOUT ROWID",
        "CREATE INDEX fields_by_object ON fields (object)",
        _FILL_FIELDS.format(path="status.phase"),
        _FILL_FIELDS.format(path="spec.template.sourceRef.name"),
    ),
)
"""The statements that lead from schema version N to N + 1, at place N. Released entries never change."""


def open_file(path: Path | str, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> sqlite3.Connection:
    """Open the store at `path` (":memory:" for none on disk), made and migrated as needed.

    The file is made with mode 0600, and a wider mode is narrowed. Every commit is durable when it returns.

    Raises:
        StoreCorrupt, StoreReadOnly, StoreFull, StoreTooNew, StoreUnavailable: as their names say; nothing was changed.
    """
    if path != MEMORY:
        _prepare(Path(path))
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        _check(connection, path, len(migrations))
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {16 * 1024 * 1024}")
        _migrate(connection, migrations)
    except (sqlite3.Error, StoreUnavailable) as error:
        if connection is not None:
            connection.close()
        raise store_error(error, path) from error
    return connection


def store_error(error: Exception, path: Path | str) -> StoreUnavailable:
    """Return what a failure of SQLite means for the store at `path`."""
    if isinstance(error, StoreUnavailable):
        return error
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    if primary in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StoreCorrupt(f"cannot use store '{path}': {error}", hint=_RESTORE_HINT)
    if primary == sqlite3.SQLITE_FULL or (primary in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and _is_full(path)):
        return _full(path)
    if primary == sqlite3.SQLITE_READONLY or (primary == sqlite3.SQLITE_CANTOPEN and not _is_writable(path)):
        return _read_only(path)
    return StoreUnavailable(f"cannot use store '{path}': {error}")


def _prepare(path: Path) -> None:
    """Make the file if there is none, and see that it and its directory can be written."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unopened(path, error) from error
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != 0o600:  # noqa: PLR2004 - the mode it must have
            with suppress(OSError):
                os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    if not _is_writable(path):
        raise _read_only(path)


def _check(connection: sqlite3.Connection, path: Path | str, newest: int) -> None:
    """Refuse a file that is damaged, is another program's, or was written by a newer one."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and tables:
        raise StoreCorrupt(f"cannot use store '{path}': it is another program's database", hint=_RESTORE_HINT)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > newest:
        raise StoreTooNew(
            f"cannot use store '{path}': its schema version is {version}, this program knows up to {newest}",
            hint="start the newer arena that wrote it, or use another state directory",
        )
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise StoreCorrupt(f"cannot use store '{path}': {verdict}", hint=_RESTORE_HINT)


def _migrate(connection: sqlite3.Connection, migrations: Sequence[Sequence[str]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        for statements in migrations[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _unopened(path: Path, error: OSError) -> StoreUnavailable:
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return _read_only(path)
    if error.errno == errno.ENOSPC:
        return _full(path)
    return StoreUnavailable(f"cannot open store '{path}': {error.strerror}", hint="make the directory first, or name another state directory")


def _full(path: Path | str) -> StoreFull:
    return StoreFull(f"cannot write store '{path}': the disk is full", hint="free space on that disk; nothing else needs to be done")


def _read_only(path: Path | str) -> StoreReadOnly:
    return StoreReadOnly(
        f"cannot write store '{path}': the file or its directory is read-only", hint="make both writable, or name another state directory"
    )


def _is_writable(path: Path | str) -> bool:
    path = Path(path)
    return os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


def _is_full(path: Path | str) -> bool:
    if path == MEMORY:
        return False
    try:
        disk = os.statvfs(Path(path).parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _FULL_BELOW_BYTES
