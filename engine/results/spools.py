"""Spools: bytes by item index in an anonymous temporary file, so that order costs disk and not memory.

Sixteen bytes of memory an item. Nothing of a spool outlives its process.
"""

import os
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from engine.records import Record


class Spool:
    """Keep one value of bytes an index, 0 to `size` - 1. One thread at a time."""

    def __init__(self, size: int, directory: Path | None = None) -> None:
        """Open the temporary file in `directory` (None: the system's).

        Raises:
            OSError: it cannot be created.
        """
        self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - closed by close
        self._offsets = array("q", [-1]) * size
        self._lengths = array("q", [0]) * size
        self._end = 0
        self.count = 0

    def put(self, index: int, data: bytes) -> bool:
        """Keep `data` under `index`; return False, changing nothing, when the index has a value already.

        Raises:
            IndexError: the index is outside the spool.
            OSError: the disk is full.
        """
        if index < 0:
            raise IndexError(f"cannot keep a value at index {index}")
        if self._offsets[index] >= 0:
            return False
        self._file.write(data)
        self._offsets[index], self._lengths[index] = self._end, len(data)
        self._end += len(data)
        self.count += 1
        return True

    def get(self, index: int) -> bytes | None:
        """Return the value under `index`, None without one."""
        self._file.flush()
        return self._read(index)

    def values(self) -> Iterator[bytes]:
        """Yield the values by index, leaving gaps out."""
        self._file.flush()
        for index in range(len(self._offsets)):
            data = self._read(index)
            if data is not None:
                yield data

    def close(self) -> None:
        """Forget everything; any number of times."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _read(self, index: int) -> bytes | None:
        offset = self._offsets[index]
        return None if offset < 0 else os.pread(self._file.fileno(), self._lengths[index], offset)


class RecordSpool:
    """Keep records as they come and yield them in item order, as often as asked."""

    def __init__(self, size: int, directory: Path | None = None) -> None:
        """Make room for a plan of `size` items. Raises: OSError: the temporary file cannot be created."""
        self._spool = Spool(size, directory)

    def add(self, record: Record) -> bool:
        """Keep `record`; return False when its index has one already."""
        return self._spool.put(record.index, record.to_bytes())

    def add_all(self, records: Iterable[Record]) -> list[Record]:
        """Keep `records` and return those that were new."""
        return [record for record in records if self.add(record)]

    @property
    def count(self) -> int:
        """Return how many indexes have a record."""
        return self._spool.count

    def __iter__(self) -> Iterator[Record]:
        return map(Record.from_bytes, self._spool.values())

    def __getitem__(self, index: int) -> Record:
        data = self._spool.get(index)
        if data is None:
            raise KeyError(index)
        return Record.from_bytes(data)

    def close(self) -> None:
        """Forget everything; any number of times."""
        self._spool.close()
