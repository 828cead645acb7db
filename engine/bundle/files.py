"""Opens the files of a bundle: bounded, inside the root, and as the manifest they must be.

Owns the limits and the envelope (`apiVersion`, `kind`, `metadata`, `spec`). Must not know what stands in a spec.
"""

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from yaml.nodes import MappingNode, Node

from engine.bundle.fields import Table, name, read_object, record, string, string_map
from engine.bundle.model import Location
from engine.bundle.paths import resolve_inside
from engine.bundle.problems import Problems, did_you_mean, nearest, shown
from engine.bundle.yamltree import MAX_NODES, Document, TooLarge, compose, entries
from engine.errors import BundleInvalid

MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_FILES = 5_000
MAX_BUNDLE_BYTES = 64 * 1024 * 1024
MAX_BUNDLE_NODES = 2_000_000
"""Values that all files together may unfold into: thousands of small files of aliases would take an hour otherwise."""
MAX_ID_CHARACTERS = 200

KINDS = ("Arena", "Scenario", "Provider", "PromptConfig", "Tool", "Persona", "Eval", "RuntimeConfig", "LoggingConfig")

_METADATA = record(
    Table("metadata", {"name": name, "namespace": string, "labels": string_map, "annotations": string_map}, required=("name",)), dict, located=False
)


def _node(document: Document, node: Node, key: str) -> Node:
    del document, key
    return node


ENVELOPE = Table(
    "a manifest", {"$schema": string, "apiVersion": string, "kind": name, "metadata": _METADATA, "spec": _node}, required=("kind", "metadata", "spec")
)
_NOT_AN_ID = re.compile(r"[/\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\A\s|\s\Z")
_JSON_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
_SURROGATES = re.compile(r"(?<!\\)\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
"""An escaped character beyond 16 bits: JSON writes two escapes, YAML knows no halves."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A file's envelope, read: where its spec is, its id and labels. `location` is the line of its name."""

    document: Document
    spec: Node
    name: str
    labels: dict[str, str]
    location: Location


@dataclass(slots=True)
class BundleFiles:
    """The files of one bundle while it is loaded: where problems go, and how much may still be read."""

    root: Path
    problems: Problems
    config_dir: str = ""
    files_left: int = field(default=MAX_FILES)
    bytes_left: int = field(default=MAX_BUNDLE_BYTES)
    nodes_left: int = field(default=MAX_BUNDLE_NODES)
    programs: frozenset[str] = frozenset()

    def open(self, file: str, named_at: Location) -> tuple[Document, Node] | None:
        """Parse `file`; None after a problem, which stands where the file was named if it is not there."""
        text = self.read_text(file, named_at)
        if text is None:
            return None
        document = Document(file, self.problems, self.root, self.config_dir, min(MAX_NODES, self.nodes_left), self.programs)
        node = self.attempt(document, lambda: compose(document, text))
        return None if node is None else (document, node)

    def attempt(self, document: Document, read: Callable[[], T]) -> T | None:
        """Run a reader of `document`; a file that unfolds beyond all limits becomes a problem, and None."""
        before = document.nodes_left
        try:
            return read()
        except (TooLarge, RecursionError):
            message = "cannot read the file: it is nested too deeply, or its aliases unfold into too much"
            self.problems.error(Location(document.file, 1), message)
            return None
        finally:
            self.nodes_left -= before - document.nodes_left

    def manifest(self, file: str, named_at: Location, kind: str) -> Manifest | None:
        """Read `file` as a manifest of `kind`; None after a problem."""
        opened = self.open(file, named_at)
        if opened is None:
            return None
        document, node = opened
        return self.attempt(document, lambda: read_manifest(document, node, kind))

    def read_text(self, file: str, named_at: Location) -> str | None:
        """Read a text file whole; None after a problem, which stands where the file was named."""
        try:
            content = self._bytes(file, named_at)
            return None if content is None else _decode(file, content)
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            self.problems.error(Location(file, line), "cannot read the file: it is not UTF-8 text")
        except BundleInvalid as error:
            self.problems.error(named_at, error.message, error.hint)
        except FileNotFoundError:
            self.problems.error(named_at, f"cannot find '{shown(file)}': no such file in the bundle", self._neighbour(file))
        except OSError as error:
            self.problems.error(named_at, f"cannot read '{shown(file)}': {(error.strerror or 'unknown error').lower()}")
        return None

    def _bytes(self, file: str, named_at: Location) -> bytes | None:
        path = resolve_inside(self.root, file)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                self.problems.error(named_at, f"cannot read '{shown(file)}': it is not a regular file")
                return None
            self.files_left -= 1
            self.bytes_left -= status.st_size
            if problem := self._over_limit(status.st_size):
                self.problems.error(named_at, f"cannot read '{shown(file)}': {problem}")
                return None
            return stream.read(MAX_FILE_BYTES)

    def _over_limit(self, size: int) -> str:
        if size > MAX_FILE_BYTES:
            return f"its {size:,} bytes are over the limit of {MAX_FILE_BYTES:,} for one file"
        if self.files_left < 0:
            return f"the arena names more than {MAX_FILES:,} files"
        return f"the files of this arena hold more than {MAX_BUNDLE_BYTES:,} bytes" if self.bytes_left < 0 else ""

    def _neighbour(self, file: str) -> str:
        directory = file.rpartition("/")[0]
        try:
            present = sorted(os.listdir(resolve_inside(self.root, directory or ".")))[:MAX_FILES]  # noqa: PTH208 - names are all that is needed
        except (OSError, BundleInvalid):
            return f"there is no directory '{shown(directory)}'" if directory else ""
        near = nearest(file.rpartition("/")[2], present)
        if near:
            return f"did you mean '{directory}/{near}'?" if directory else f"did you mean '{near}'?"
        return "the path is relative to the file that names it"


def _decode(file: str, content: bytes) -> str:
    text = content.decode("utf-8-sig")
    if file.endswith(".json"):
        text = _JSON_INDENT.sub(lambda match: " " * len(match.group()), text)
        text = _SURROGATES.sub(lambda match: match.group().encode().decode("unicode-escape").encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return text


def read_manifest(document: Document, node: Node, kind: str) -> Manifest | None:
    """Read the envelope of a manifest of `kind`; None after a problem."""
    values = read_object(document, node, ENVELOPE)
    if values is None or not _is_kind(document, node, values.get("kind"), kind):
        return None
    metadata = values.get("metadata")
    if metadata is None or "name" not in metadata or "spec" not in values:
        return None
    place = _name_node(document, node)
    if not valid_id(document, place, metadata["name"]):
        return None
    return Manifest(document, values["spec"], metadata["name"], metadata.get("labels", {}), document.at(place))


def valid_id(document: Document, node: Node, ident: str) -> bool:
    """Say whether a name can be an id: ids are parts of item ids, so `/`, control and invisible characters are refused with a problem."""
    if _NOT_AN_ID.search(ident):
        document.error(
            node, f"cannot use the name '{shown(ident)}': it has a slash, a control character, or a space at an end", "names become parts of item ids"
        )
        return False
    if len(ident) > MAX_ID_CHARACTERS:
        document.error(node, f"cannot use the name '{shown(ident)}': it is longer than {MAX_ID_CHARACTERS} characters")
        return False
    return True


def _is_kind(document: Document, node: Node, found: Any, wanted: str) -> bool:
    if found == wanted:
        return True
    if isinstance(found, str) and isinstance(node, MappingNode):
        hint = f"this reference needs kind {wanted}" if found in KINDS else did_you_mean(found, KINDS, otherwise="kinds are")
        document.error(entries(document, node)["kind"][1], f"cannot use the file: its kind is '{shown(found)}', not '{wanted}'", hint)
    return False


def _name_node(document: Document, node: Node) -> Node:
    metadata = entries(document, node)["metadata"][1] if isinstance(node, MappingNode) else node
    return entries(document, metadata)["name"][1] if isinstance(metadata, MappingNode) else node
