"""A look at a store's file from outside: read, judged and copied, while a server has it open or none does.

Never changes the store, and neither migrates nor repairs it. Must not know what an object means.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from reconcile.cluster.port import Object, ResourceKind
from reconcile.cluster.sqlite_file import APPLICATION_ID, BUSY_TIMEOUT_S, MIGRATIONS, store_error
from reconcile.errors import StoreCorrupt

KNOWN_SCHEMA = len(MIGRATIONS)
"""The schema version that this program writes."""


class StoreReading:
    """The store in the file at `path`, open for reading; use it with `with`.

    Raises:
        StoreCorrupt, StoreUnavailable: there is no file, or it is none of our stores. Every method may raise them too.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._told():
            path.stat()
            # Without a write-ahead log nobody has the file open: immutable keeps SQLite from making one just to read.
            options = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
            self._db = sqlite3.connect(f"file:{quote(str(path))}?{options}", uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        try:
            self._check()
        except BaseException:
            self._db.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._db.close()

    @property
    def schema(self) -> int:
        """Return the schema version that the file has; above `KNOWN_SCHEMA` a newer program wrote it, and nothing else here can be trusted."""
        with self._told():
            return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def damage(self) -> str:
        """Read the whole file and return what is wrong with it, "" when nothing is."""
        with self._told():
            (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        return "" if verdict == "ok" else str(verdict)

    def newest(self) -> float:
        """Return the time of the newest change, in seconds since the epoch; 0.0 for a store in which nothing ever happened."""
        with self._told():
            (newest,) = self._db.execute("SELECT max(at) FROM (SELECT max(at) AS at FROM log UNION ALL SELECT max(changed) FROM objects)").fetchone()
        return float(newest or 0.0)

    def objects(self, kind: ResourceKind) -> list[Object]:
        """Return all objects of a kind, by namespace and name."""
        query = "SELECT body FROM objects WHERE kind = ? ORDER BY namespace, name"
        with self._told():
            return [json.loads(body) for (body,) in self._db.execute(query, (kind.kind,))]

    def copy_to(self, target: Path) -> None:
        """Write the store as it is at one moment to a new file, complete by itself and synced; others may go on writing meanwhile."""
        with self._told(), closing(sqlite3.connect(target)) as copy:
            self._db.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")

    def _check(self) -> None:
        with self._told():
            (application,) = self._db.execute("PRAGMA application_id").fetchone()
        if application != APPLICATION_ID:
            raise StoreCorrupt(f"cannot use store '{self._path}': it is another program's database")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what SQLite and the file system say into our errors."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise store_error(error, self._path) from error
