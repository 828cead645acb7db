"""Reads evaluations of saved conversations (kind Eval).

Owns their table. Must not read recordings: who runs an eval does.
"""

from typing import Any

from yaml.nodes import Node

from engine.bundle.check_reader import checks
from engine.bundle.fields import Table, list_of, number, one_of, read_object, record, string, strings
from engine.bundle.ignored import EVAL
from engine.bundle.resources import file_reference
from engine.bundle.yamltree import Document

_RECORDING = Table("`recording`", {"path": file_reference, "type": one_of("session", "arena_output", "transcript", "generic")}, required=("path",))
_ALL_TURNS = record(Table("`all_turns`", {"assertions": checks}, required=("assertions",)), dict, located=False)
EVAL_TABLE = Table(
    EVAL,
    {
        "id": string,
        "description": string,
        "recording": record(_RECORDING, dict, located=False),
        "turns": list_of(record(Table("an eval's turn", {"all_turns": _ALL_TURNS}, required=("all_turns",)), dict, located=False)),
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
    turn_assertions = tuple(check for turn in values.pop("turns", ()) for check in turn["all_turns"]["assertions"])
    fields = {key: value for key, value in values.items() if key != "id"}
    return {**fields, "turn_assertions": turn_assertions, "recording": recording["path"], "recording_type": recording.get("type", "")}
