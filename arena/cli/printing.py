"""Objects on stdout in the format that was asked for: a list at once, or one change after another."""

import json
import sys
from collections.abc import Sequence
from typing import Any

import yaml

from arena.cli.listing import cells, columns_of, qualified
from arena.cli.options import Format
from reconcile.cluster.port import ResourceKind

_GAP = "   "


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
        self._widths = [max(width, *(len(row[i]) for row in rows)) for i, width in enumerate(self._widths)]
        for row in rows:
            sys.stdout.write(_GAP.join(cell.ljust(width) for cell, width in zip(row, self._widths, strict=True)).rstrip() + "\n")

    def _print_document(self, document: dict[str, Any]) -> None:
        if self._output is Format.JSON:
            sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        else:
            sys.stdout.write(("---\n" if self._documents else "") + yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
        self._documents += 1
