"""Reads evaluations of saved conversations (kind Eval).

Owns their table. They are read and checked; running them is refused by `supported.py`.
"""

from typing import Any

from yaml.nodes import Node

from engine.bundle.check_reader import checks
from engine.bundle.fields import Table, checked, list_of, number, one_of, read_object, record, string, strings
from engine.bundle.resources import file_reference
from engine.bundle.yamltree import Document

_RECORDING = Table("`recording`", {"path": file_reference, "type": one_of("session", "arena_output", "transcript", "generic")}, required=("path",))
_ALL_TURNS = Table("`all_turns`", {"assertions": checks})
EVAL_TABLE = Table(
    "an eval's spec",
    {
        "id": string,
        "description": string,
        "recording": record(_RECORDING, dict, located=False),
        "turns": list_of(checked(Table("an eval's turn", {"all_turns": checked(_ALL_TURNS)}))),
        "conversation_assertions": checks,
        "tags": strings,
        "mode": one_of("instant", "realtime", "accelerated"),
        "speed": number,
    },
    required=("recording",),
)


def read_evaluation(document: Document, node: Node) -> dict[str, Any] | None:
    """Read an eval's spec into the fields of `Evaluation`, without `id`, `file` and `location`."""
    values = read_object(document, node, EVAL_TABLE)
    if values is None or "recording" not in values:
        return None
    recording = values.pop("recording")
    fields = {key: value for key, value in values.items() if key != "id"}
    return {**fields, "recording": recording["path"], "recording_type": recording.get("type", "")}
