"""YAML (and JSON) text as a tree of nodes with lines: safe, strict and bounded.

Plain scalars follow YAML 1.2 as the reference's parser reads them: `yes` and `on` are strings, a date is a string. Duplicate keys, unknown tags,
several documents and what is no JSON value are problems; `<<` merges within a file work. Aliases count every time they are used, so that a small
file cannot unfold into a large one. Must not know any key of the format.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.events import NodeEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from engine.bundle.model import Json, Location
from engine.bundle.problems import Problems, shown

MAX_NODES = 200_000
MAX_DEPTH = 100
MAX_INTEGER_CHARACTERS = 250
"""Longer ones are beyond a float in any base."""
UNCOUNTED_CHARACTERS = 128 * 1024
"""A text of this size cannot hold enough nodes to matter, so it is parsed once; a larger one is counted first."""

_CORE = "tag:yaml.org,2002:"
_PLAIN = "plain"
_INTEGER = re.compile(r"[-+]?(?:0b[01][01_]*|0o[0-7][0-7_]*|0x[0-9a-fA-F][0-9a-fA-F_]*|0[0-7_]*|[1-9][0-9_]*)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NUMBER_START = frozenset("0123456789+-.")
_WORDS: dict[str, Json] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_LARGEST_INTEGER = 2**63


class _Loader(yaml.CSafeLoader):
    """libyaml's parser; plain scalars keep the tag `plain`, because PyYAML would resolve them as YAML 1.1."""

    yaml_implicit_resolvers = {None: [(_PLAIN, re.compile(""))]}  # noqa: RUF012 - the attribute PyYAML reads


class TooLarge(Exception):
    """The file unfolds into more nodes, or deeper, than any real one."""


@dataclass(slots=True)
class Document:
    """One file while it is read: its name, where its problems go, and how much of it may still be unfolded.

    `config_dir` is the directory, relative to the bundle's `root`, that resources (media, mock responses) are looked up in first.
    `programs` are the arena's that evaluate: each is a type of check.
    """

    file: str
    problems: Problems
    root: Path = Path()
    config_dir: str = ""
    nodes_left: int = field(default=MAX_NODES)
    programs: frozenset[str] = frozenset()

    @property
    def directory(self) -> str:
        """The directory that the file's references are relative to; "" for the root."""
        return self.file.rpartition("/")[0]

    def at(self, node: Node) -> Location:
        """Return where `node` begins."""
        return Location(self.file, node.start_mark.line + 1)

    def error(self, node: Node, message: str, hint: str = "") -> None:
        """Add an error at `node`."""
        self.problems.error(self.at(node), message, hint)

    def spend(self, nodes: int) -> None:
        """Count nodes that were unfolded. Raises TooLarge over the limit."""
        self.nodes_left -= nodes
        if self.nodes_left < 0:
            raise TooLarge


def compose(document: Document, text: str) -> Node | None:
    """Parse one document; None when it is empty or a problem was added.

    Raises:
        TooLarge: it has more nodes than any real file; found before they take memory.
    """
    try:
        if len(text) > UNCOUNTED_CHARACTERS:
            _count_nodes(text)
        node = yaml.compose(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        cause = getattr(error, "problem", None) or "it has a character that YAML does not allow"
        line = mark.line + 1 if mark is not None else _line_of_bad_character(text)
        document.problems.error(Location(document.file, line), f"cannot parse the file: {cause}", "it must be one YAML document")
        return None
    if node is None or (isinstance(node, ScalarNode) and node.value == ""):
        document.problems.error(Location(document.file, 1), "cannot read the file: it is empty")
        return None
    return node


def _line_of_bad_character(text: str) -> int:
    found = _NOT_YAML.search(text)
    return text.count("\n", 0, found.start() if found else 0) + 1


def _count_nodes(text: str) -> None:
    nodes = 0
    for event in yaml.parse(text, _Loader):
        nodes += isinstance(event, NodeEvent)
        if nodes > MAX_NODES:
            raise TooLarge


def entries(document: Document, node: MappingNode) -> dict[str, tuple[Node, Node]]:
    """Return a mapping's entries in order, `key -> (key node, value node)`, merges unfolded behind its own keys."""
    document.spend(len(node.value) + 1)
    found: dict[str, tuple[Node, Node]] = {}
    merged: list[Node] = []
    for key, value in node.value:
        if not isinstance(key, ScalarNode):
            document.error(key, "cannot read a key that is not a plain word")
        elif key.value == "<<" and key.tag == _PLAIN:
            merged.append(value)
        elif key.value in found:
            first = found[key.value][0].start_mark.line + 1
            document.error(key, f"duplicate key '{shown(key.value)}'", f"it stands on line {first} already")
        else:
            found[key.value] = (key, value)
    for mapping in _merged_mappings(document, merged):
        for name, pair in entries(document, mapping).items():
            found.setdefault(name, pair)
    return found


def _merged_mappings(document: Document, merged: list[Node]) -> Iterator[MappingNode]:
    for value in merged:
        for part in value.value if isinstance(value, SequenceNode) else [value]:
            if isinstance(part, MappingNode):
                yield part
            else:
                document.error(part, "cannot merge what is not an object", "`<<` takes an alias of an object")


def scalar(document: Document, node: ScalarNode) -> Json:
    """Return a scalar's value: None, bool, int, float or str."""
    text: str = node.value
    tag: str = node.tag
    if tag == _CORE + "str":
        return text
    if tag == _PLAIN:
        return _plain(document, node, text)
    if tag in (_CORE + "int", _CORE + "float", _CORE + "bool", _CORE + "null"):
        return _plain(document, node, text)
    document.error(node, f"cannot read a value with the tag '{shown(tag)}'", "leave the tag out")
    return text


def _plain(document: Document, node: ScalarNode, text: str) -> Json:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START:
        return text
    if len(text) <= MAX_INTEGER_CHARACTERS and _INTEGER.match(text):
        return _integer(text)
    if _FLOAT.match(text):
        number = float(text)
        if math.isfinite(number):
            return number
        document.error(node, f"cannot read the number {shown(text)}: it is too large")
    elif text.lower().lstrip("+-") in (".inf", ".nan"):
        document.error(node, f"cannot read {text}: it is not a finite number")
    return text


def _integer(text: str) -> int | float:
    digits = text.replace("_", "")
    sign = -1 if digits[0] == "-" else 1
    digits = digits.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        digits = "0o" + digits[1:]
    number = sign * int(digits, 0)
    return number if abs(number) < _LARGEST_INTEGER else float(number)


def to_json(document: Document, node: Node, depth: int = 0) -> Json:
    """Return a node and all below it as a plain JSON value. Raises TooLarge over the limits of size and depth."""
    if isinstance(node, ScalarNode):
        document.spend(1)
        return scalar(document, node)
    if depth >= MAX_DEPTH:
        raise TooLarge
    if isinstance(node, SequenceNode):
        document.spend(1)
        return [to_json(document, item, depth + 1) for item in node.value]
    if isinstance(node, MappingNode):
        return {key: to_json(document, value, depth + 1) for key, (_, value) in entries(document, node).items()}
    raise TooLarge


def is_null(node: Node) -> bool:
    """Say whether a value was left empty, which counts as not given."""
    return isinstance(node, ScalarNode) and node.tag in (_PLAIN, _CORE + "null") and node.value in ("", "~", "null", "Null", "NULL")


def kind_of(node: Node, value: Any = ...) -> str:
    """Return what a node is, in words for a message."""
    if isinstance(node, MappingNode):
        return "an object"
    if isinstance(node, SequenceNode):
        return "a list"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    return "text" if isinstance(value, str) else "nothing"
