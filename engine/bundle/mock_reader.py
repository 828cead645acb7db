"""Reads a mock provider's response file, strictly: a key it does not know is an error, where the reference falls back to a generic reply.

Owns the tables of that file. Which entry answers which request is the mock provider's business.
"""

import re
from pathlib import Path
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode

from engine.bundle.fields import (
    INVALID,
    Table,
    integer,
    json_object,
    list_of,
    map_of,
    name,
    one_of,
    read_object,
    reads,
    record,
    schema_of,
    table_schema,
    word,
)
from engine.bundle.files import BundleFiles
from engine.bundle.mock_responses import MockResponses, MockScript, MockToolCall, MockTurn
from engine.bundle.model import Location
from engine.bundle.problems import Problems
from engine.bundle.yamltree import Document, compose, is_null, scalar

_CALL = record(Table("a mock tool call", {"name": name, "arguments": json_object}, required=("name",)), MockToolCall, located=False)
_PART_KEYS = ("text", "image_url", "audio_url", "video_url", "document_url", "metadata")
_PART = Table(
    "a mock part",
    {"type": one_of("text", "image", "audio", "video", "document"), "text": word, **dict.fromkeys(_PART_KEYS[1:], json_object)},
    required=("type",),
)
_TEXT_KEYS = ("content", "text", "response")
_TURN_NUMBER = re.compile(r"[1-9][0-9]{0,8}\Z")
_AUDIO_KEYS = {"audio_file": word, "audio_sample_rate": integer(1), "audio_mime_type": word}
_TURN = Table(
    "a mock turn",
    {
        "type": one_of("text", "tool_calls", "multimodal"),
        **dict.fromkeys(_TEXT_KEYS, word),
        "parts": list_of(record(_PART, dict, located=False)),
        "tool_calls": list_of(_CALL),
        **_AUDIO_KEYS,
    },
)


@reads(lambda: {"anyOf": [{"type": ["string", "number", "boolean"]}, table_schema(_TURN)]})
def _turn(document: Document, node: Node, key: str) -> Any:
    del key
    if isinstance(node, ScalarNode):
        return MockTurn(content="" if is_null(node) else str(node.value), location=document.at(node))
    values = read_object(document, node, _TURN)
    if values is None:
        return INVALID
    texts = [key for key in _TEXT_KEYS if key in values]
    if len(texts) > 1:
        document.error(node, f"cannot read the mock turn: '{texts[1]}' and '{texts[0]}' are the same key", f"keep '{texts[0]}'")
    parts, calls = values.get("parts", ()), values.get("tool_calls", ())
    if values.get("type") == "tool_calls" and not calls:
        document.error(node, "cannot read the mock turn: its type is tool_calls, and it has none", "add tool_calls, or leave `type` out")
    for key in _AUDIO_KEYS:
        if key in values:
            document.problems.warning(document.at(node), f"'{key}' of a mock turn has no effect: audio is not built yet")
    return MockTurn(
        content=values[texts[0]] if texts else "".join(part.get("text", "") for part in parts if part["type"] == "text"),
        parts=parts,
        tool_calls=calls,
        location=document.at(node),
    )


@reads(lambda: {"type": "object", "patternProperties": {r"^[1-9][0-9]*$": schema_of(_turn)}, "additionalProperties": False})
def _numbered(document: Document, node: Node, key: str) -> Any:
    named = map_of(_turn)(document, node, key)
    if named is INVALID:
        return INVALID
    wrong = next((number for number in named if not _TURN_NUMBER.match(number)), None)
    if wrong is not None:
        document.error(node, f"cannot read '{key}': '{wrong}' is not a turn number", "turns are counted from 1")
        return INVALID
    return {int(number): turn for number, turn in named.items()}


@reads(lambda: table_schema(_SCRIPT))
def _script(document: Document, node: Node, key: str) -> Any:
    del key
    values = read_object(document, node, _SCRIPT)
    if values is None:
        return INVALID
    return MockScript(values.get("defaultResponse"), values.get("turns", {}), values.get("steps", {}))


_SCRIPT: Table = Table("a mock script", {"defaultResponse": word, "turns": _numbered, "steps": map_of(_turn)})
RESPONSES_TABLE = Table("a mock response file", {"defaultResponse": word, "scenarios": map_of(_script), "selfplay": map_of(_script)})


def read_mock(document: Document, node: Node) -> MockResponses | None:
    """Read the tree of a response file; None after a problem that leaves nothing of it."""
    if isinstance(node, ScalarNode) or not isinstance(node, MappingNode):
        kind = "text" if isinstance(node, ScalarNode) and isinstance(scalar(document, node), str) else "no object"
        document.error(node, f"cannot read a mock response file: it is {kind}", "its keys are: defaultResponse, scenarios, selfplay")
        return None
    values = read_object(document, node, RESPONSES_TABLE)
    if values is None:
        return None
    return MockResponses(values.get("defaultResponse"), values.get("scenarios", {}), values.get("selfplay", {}))


def load_mock(files: BundleFiles, file: str, named_at: Location) -> MockResponses | None:
    """Read a response file of a bundle that is being loaded; None after a problem."""
    opened = files.open(file, named_at)
    if opened is None:
        return None
    document, node = opened
    return files.attempt(document, lambda: read_mock(document, node))


def load_mock_responses(root: Path, file: str) -> MockResponses:
    """Read a response file: `file` is relative to `root` and inside it, or absolute (only `arena eval` names such a one).

    Raises:
        BundleInvalid: it cannot be read; the message starts with `file:line:`.
    """
    path = Path(file)
    base, relative = (path.parent, path.name) if path.is_absolute() else (root, file)
    problems = Problems()
    responses = load_mock(BundleFiles(base, problems), relative, Location(file, 0))
    problems.raise_errors()
    return responses if responses is not None else MockResponses()


def parse_mock_responses(text: str, source: str) -> MockResponses:
    """Read a response file that lies outside any bundle; `source` names it in messages.

    Raises:
        BundleInvalid: it cannot be read; the message starts with `source:line:`.
    """
    problems = Problems()
    files = BundleFiles(Path(), problems)
    document = Document(source, problems, Path(), "")
    node = files.attempt(document, lambda: compose(document, text))
    responses = None if node is None else files.attempt(document, lambda: read_mock(document, node))
    problems.raise_errors()
    return responses if responses is not None else MockResponses()
