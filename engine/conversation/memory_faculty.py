"""A memory as a model has it: the four tools that remember, recall, list and forget.

Owns the tools. A memory belongs to one conversation: trials never see each other's. What a search finds is `memory.py`'s.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.bundle.contexts import SeedMemory
from engine.conversation.faculties import Enable, Faculty, OwnTool, object_schema
from engine.conversation.memory import Memory, MemoryStore
from engine.conversation.transcript import Transcript
from engine.providers.port import ToolSpec
from engine.tools.port import CallableTool, CallFailed
from engine.tools.schema import Schema
from foundation.clock import Clock

RECALLED, LISTED = 10, 50

_TEXT, _TYPES = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
_LIMIT = {"type": "integer", "minimum": 1}
_REMEMBER = ToolSpec(
    "memory__remember",
    "Remember something for later, in a sentence that can be understood alone.",
    object_schema(
        {
            "content": _TEXT,
            "type": {**_TEXT, "description": "What kind of memory it is, such as preference or fact."},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "metadata": {"type": "object"},
        },
        "content",
    ),
)
_RECALL = ToolSpec(
    "memory__recall",
    "Find memories by what they are about, the best first.",
    object_schema({"query": _TEXT, "type": _TEXT, "types": _TYPES, "limit": _LIMIT}, "query"),
)
_LIST = ToolSpec("memory__list", "List memories, oldest first.", object_schema({"type": _TEXT, "types": _TYPES, "limit": _LIMIT}))
_FORGET = ToolSpec("memory__forget", "Forget a memory.", object_schema({"memory_id": _TEXT}, "memory_id"))
SPECS = (_REMEMBER, _RECALL, _LIST, _FORGET)
_SCHEMAS = tuple(Schema(spec.input_schema) for spec in SPECS)


def enable_memory(seeds: Sequence[SeedMemory]) -> Enable:
    """Return what builds a conversation's memory, with these memories in it."""

    def enable(transcript: Transcript, clock: Clock) -> Faculty:
        del transcript, clock
        store = MemoryStore()
        for seed in seeds:
            store.remember(seed.content, seed.type, seed.confidence, seed.metadata)
        return MemoryFaculty(store)

    return enable


class MemoryFaculty(Faculty):
    """A conversation's memory."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        runs = (self._remember, self._recall, self._list, self._forget)
        self._tools = {spec.name: OwnTool(spec, schema, run) for spec, schema, run in zip(SPECS, _SCHEMAS, runs, strict=True)}

    def offers(self) -> Sequence[ToolSpec]:
        """Return the four tools."""
        return SPECS

    def find(self, name: str) -> CallableTool | None:
        """Return one of them."""
        return self._tools.get(name)

    def _remember(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        given = arguments.get("type", "general"), arguments.get("confidence", 0.8), arguments.get("metadata")
        try:
            memory = self._store.remember(arguments["content"], *given)
        except ValueError as error:
            raise CallFailed("execution", str(error)) from None
        return {"status": "remembered", "memory": _shown(memory)}

    def _recall(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return _found(self._store.recall(arguments["query"], _kinds(arguments)), arguments.get("limit", RECALLED))

    def _list(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return _found(self._store.of_types(_kinds(arguments)), arguments.get("limit", LISTED))

    def _forget(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if not self._store.forget(arguments["memory_id"]):
            raise CallFailed("execution", f"there is no memory '{arguments['memory_id']}'")
        return {"status": "forgotten", "memory_id": arguments["memory_id"]}


def _kinds(arguments: Mapping[str, Any]) -> list[str]:
    return [*arguments.get("types", ()), *([arguments["type"]] if arguments.get("type") else [])]


def _found(memories: Sequence[Memory], limit: int) -> dict[str, Any]:
    return {"count": len(memories), "memories": [_shown(memory) for memory in memories[:limit]]}


def _shown(memory: Memory) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": memory.id, "content": memory.content, "type": memory.type, "confidence": memory.confidence}
    return shown | {"metadata": dict(memory.metadata)} if memory.metadata else shown
