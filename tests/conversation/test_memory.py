"""Memory: what a model remembers in a conversation, and what a query finds."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bundle.model import Bundle
from engine.conversation import ItemRunner
from engine.conversation import memory as module
from engine.conversation.memory import MemoryStore
from engine.items import ItemResult, Verdict
from engine.plan import PlanRequest, make_plan
from foundation.clock import SystemClock

Write = Callable[..., Bundle]
Hold = Callable[..., Awaitable[ItemResult]]

SEEDS: list[dict[str, Any]] = [
    {"content": "The customer prefers window seats on long flights", "type": "preference", "confidence": 0.9},
    {"content": "The customer is allergic to peanuts", "type": "fact"},
]


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """Return a reply that calls one of the memory's tools."""
    return {"tool_calls": [{"name": f"memory__{tool}", "arguments": arguments}]}


def results(held: ItemResult) -> list[Any]:
    """Return what the model read of its calls: JSON values, or the text of an error."""
    texts = [message["content"] for message in held.messages if message["role"] == "tool"]
    return [text if text.startswith("Error") else json.loads(text) for text in texts]


async def remembered(hold: Hold, *replies: dict[str, Any], seeds: tuple[dict[str, Any], ...] = ()) -> list[Any]:
    """Hold one turn in which these calls are made, one after another; returns what came of them."""
    script = dict(enumerate((*replies, "done"), 1))
    held = await hold([{"role": "user", "content": "Hi"}], script, arena={"memory": {}}, scenario={"seed_memories": list(seeds)})
    assert held.verdict is Verdict.PASS
    return results(held)


async def test_what_was_remembered_is_recalled(hold: Hold) -> None:
    """A memory can be found by words of it, listed, and forgotten."""
    kept, found, _, gone = await remembered(
        hold,
        call("remember", content="Ann likes tea", type="preference"),
        call("recall", query="what tea?"),
        call("forget", memory_id="mem-1"),
        call("list"),
    )
    assert kept["memory"]["id"] == "mem-1"
    assert [memory["content"] for memory in found["memories"]] == ["Ann likes tea"]
    assert gone == {"count": 0, "memories": []}


async def test_no_hit_is_no_error(hold: Hold) -> None:
    """A query that finds nothing answers with nothing; the reference's answer fails its own schema, so that the call counts as failed."""
    checks = [{"type": "tools_called", "params": {"tool_names": ["memory__recall"]}}, {"type": "no_tool_errors", "params": {}}]
    held = await hold([{"role": "user", "content": "Hi", "assertions": checks}], {1: call("recall", query="boats"), 2: "no"}, arena={"memory": {}})
    assert (results(held), held.verdict) == ([{"count": 0, "memories": []}], Verdict.PASS)


async def test_seeds_are_there(hold: Hold) -> None:
    """Seed memories are there before the conversation, and a question in other words than theirs finds them."""
    (found,) = await remembered(hold, call("recall", query="Which seat does the customer prefer on a flight?"), seeds=tuple(SEEDS))
    assert found["memories"][0]["content"] == SEEDS[0]["content"]


async def test_a_scenario_with_seeds_has_a_memory(hold: Hold) -> None:
    """Seeds bring the tools with them, also where the arena says nothing of a memory."""
    held = await hold([{"role": "user", "content": "Hi"}], {1: call("list"), 2: "ok"}, scenario={"seed_memories": SEEDS})
    assert results(held)[0]["count"] == 2


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        pytest.param(call("forget", memory_id="mem-9"), "there is no memory 'mem-9'", id="an unknown id"),
        pytest.param(call("recall"), "lacks 'query'", id="no query"),
        pytest.param(call("remember", content="x", confidence=2), "confidence must be at most 1", id="a confidence beyond 1"),
    ],
)
async def test_a_faulty_call_is_told(hold: Hold, reply: dict[str, Any], words: str) -> None:
    """What is wrong with a call is said to the model."""
    assert words in (await remembered(hold, reply))[0]


async def test_trials_share_nothing(write: Write) -> None:
    """Each conversation has a memory of its own, counted from mem-1."""
    replies = {1: call("remember", content="x"), 2: call("list"), 3: "ok"}
    bundle = write([{"role": "user", "content": "Hi"}], replies, arena={"memory": True}, scenario={"trials": 2})
    plan = make_plan(bundle, PlanRequest())
    runner = ItemRunner(bundle, plan, SystemClock())
    assert [results(await runner.run(item))[1]["count"] for item in plan.items] == [1, 1]


def store(*contents: str) -> MemoryStore:
    """Return a store with these memories."""
    memories = MemoryStore()
    for content in contents:
        memories.remember(content)
    return memories


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param("flight", ["Late flights are bad", "The flight to Rome"], id="a word's forms, the newest first"),
        pytest.param("Rome flights", ["The flight to Rome", "Late flights are bad"], id="more shared words come first"),
        pytest.param("FLIGHT to rome!", ["The flight to Rome", "Late flights are bad"], id="case and marks do not matter"),
        pytest.param("the", [], id="a common word alone finds what says it as its only word"),
        pytest.param("", ["Späte Züge", "Late flights are bad", "The flight to Rome"], id="nothing asked finds everything"),
        pytest.param("zug züge", ["Späte Züge"], id="other letters than ASCII"),
        pytest.param("train", [], id="no shared word"),
    ],
)
def test_recall(query: str, found: list[str]) -> None:
    """A query finds what shares words with it, best first."""
    memories = store("The flight to Rome", "Late flights are bad", "Späte Züge")
    assert [memory.content for memory in memories.recall(query)] == found


def test_the_same_words_are_one_memory() -> None:
    """What is remembered again is taken anew under its id, not kept twice."""
    memories = store("a", "b", "a")
    assert [(memory.id, memory.content) for memory in memories.of_types()] == [("mem-1", "a"), ("mem-2", "b")]


def test_types_narrow_a_search() -> None:
    """A query may be about memories of some types only."""
    memories = store("a tea")
    memories.remember("b tea", "preference")
    assert [memory.content for memory in memories.recall("tea", ["preference"])] == ["b tea"]


def test_a_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a limit to what one conversation remembers."""
    monkeypatch.setattr(module, "MAX_MEMORIES", 1)
    memories = store("a")
    with pytest.raises(ValueError, match="memories already"):
        memories.remember("b")


@given(st.lists(st.text(max_size=20), max_size=6), st.text(max_size=20))
def test_recall_never_breaks_and_never_invents(contents: list[str], query: str) -> None:
    """Whatever is remembered and asked: what is found was remembered, and each memory is found at most once."""
    memories = store(*contents)
    found = [memory.id for memory in memories.recall(query)]
    assert len(found) == len(set(found))
    assert set(found) <= {memory.id for memory in memories.of_types()}
