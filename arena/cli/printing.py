"""Objects on stdout in the format that was asked for: a list at once, or one change after another."""

import json
import shutil
import sys
from collections.abc import Sequence
from typing import Any

import yaml

from arena.cli.listing import cells, columns_of, qualified
from arena.cli.options import Format
from reconcile.cluster.port import ResourceKind

_GAP = "   "
_NARROWEST = 20
"""What a shortened column keeps, however narrow the terminal is: less says nothing."""


class ObjectPrinter:
    """Prints objects of one kind; the rows of a watch stand below the columns of the list before it."""

    def __init__(self, kind: ResourceKind, output: Format) -> None:
        self._kind = kind
        self._output = output
        self._columns = columns_of(kind, wide=output is Format.WIDE)
        self._widths: list[int] = []
        self._documents = 0

    def print_list(self, listing: dict[str, Any]) -> None:
        """Print a list object; that nothing was found is said on stderr."""
        items: list[dict[str, Any]] = listing["items"]
        if self._output in {Format.JSON, Format.YAML}:
            self._print_document(listing)
        elif items:
            self.print_objects(items)
        else:
            sys.stderr.write(f"No {self._kind.plural} found.\n")
        sys.stdout.flush()

    def print_objects(self, items: Sequence[dict[str, Any]]) -> None:
        """Print objects, each by itself."""
        if self._output in {Format.TABLE, Format.WIDE}:
            self._print_rows([cells(self._columns, item) for item in items])
        elif self._output is Format.NAME:
            sys.stdout.writelines(f"{qualified(self._kind)}/{item['metadata']['name']}\n" for item in items)
        else:
            for item in items:
                self._print_document(item)
        sys.stdout.flush()

    def _print_rows(self, rows: list[list[str]]) -> None:
        if not self._widths:
            rows = [[column.name.upper() for column in self._columns], *rows]
            self._widths = [0] * len(self._columns)
        if self._output is Format.TABLE and sys.stdout.isatty():
            rows = fitted(rows, shutil.get_terminal_size().columns)
        self._widths = [max(width, *(len(row[i]) for row in rows)) for i, width in enumerate(self._widths)]
        for row in rows:
            sys.stdout.write(_GAP.join(cell.ljust(width) for cell, width in zip(row, self._widths, strict=True)).rstrip() + "\n")

    def _print_document(self, document: dict[str, Any]) -> None:
        if self._output is Format.JSON:
            sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        else:
            sys.stdout.write(("---\n" if self._documents else "") + yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
        self._documents += 1


def fitted(rows: Sequence[Sequence[str]], columns: int) -> list[list[str]]:
    """Return the rows with the widest column but the first, the name, shortened, so that a line of the table has at most `columns` characters.

    `…` ends a cell that was cut.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widest = max(range(1, len(widths)), key=widths.__getitem__)
    kept = max(widths[widest] - max(sum(widths) + len(_GAP) * (len(widths) - 1) - columns, 0), _NARROWEST)
    return [[f"{cell[: kept - 1]}…" if i == widest and len(cell) > kept else cell for i, cell in enumerate(row)] for row in rows]
