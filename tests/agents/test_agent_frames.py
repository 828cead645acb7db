"""Frames of the agent protocol, read and written."""

import json
from typing import Any

import pytest

from engine.agents.frames import Answered, Asked, Called, Connected, Done, Failed, Frame, FrameFault, Said, read_frame, write_frame
from engine.items import Usage
from engine.providers.messages import ToolCall

FRAMES: dict[str, Frame] = {
    "connected": Connected("s"),
    "message": Asked("hello\n\u2028"),
    "chunk": Said("hé"),
    "tool_call": Called(ToolCall("c1", "lookup", {"a": [1, None]})),
    "tool_result": Answered("c1", "found"),
    "tool_result that failed": Answered("c1", "", "gone"),
    "done": Done("all of it", Usage(1, 2, 3, 4), 0.5),
    "done without anything": Done(),
    "error": Failed("RATE_LIMITED", "slow down"),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())
def test_a_frame_reads_as_it_was_written(frame: Frame) -> None:
    """What one side writes, the other reads."""
    assert read_frame(write_frame(frame, "s"), "s") == frame


ELSEWHERE: dict[str, tuple[dict[str, Any], Frame]] = {
    "a call beside its type": ({"type": "tool_call", "id": "1", "name": "n", "arguments": {"a": 1}}, Called(ToolCall("1", "n", {"a": 1}))),
    "arguments as text": (
        {"type": "tool_call", "tool_call": {"id": "1", "name": "n", "arguments": '{"a":1}'}},
        Called(ToolCall("1", "n", {"a": 1}, '{"a":1}')),
    ),
    "arguments that are no object": ({"type": "tool_call", "name": "n", "arguments": "[1"}, Called(ToolCall("", "n", None, "[1"))),
    "no arguments": ({"type": "tool_call", "name": "n"}, Called(ToolCall("", "n", {}))),
    "a result of any JSON": ({"type": "tool_result", "tool_result": {"id": "1", "result": {"b": 1, "a": [2.0]}}}, Answered("1", '{"a":[2],"b":1}')),
    "an error beside its type": ({"type": "error", "code": "X", "message": "m"}, Failed("X", "m")),
    "an error that is a text": ({"type": "error", "error": "m"}, Failed("", "m")),
    "an error with a number": ({"type": "error", "error": {"code": 429, "message": "m"}}, Failed("429", "m")),
    "a cost within the usage": ({"type": "done", "usage": {"input_tokens": 3, "cost_usd": 0.25}}, Done("", Usage(3), 0.25)),
    "usage of other words": ({"type": "done", "usage": {"seconds": 3}}, Done()),
    "fields that nobody knows": ({"type": "chunk", "content": "x", "timestamp": "now", "parts": []}, Said("x")),
    "a session that brings more": ({"type": "connected", "session_id": "s", "connected": {"capabilities": {}}}, Connected("s")),
    "a chunk without text": ({"type": "chunk"}, Said("")),
}


@pytest.mark.parametrize(("content", "frame"), ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_a_frame_may_be_written_otherwise(content: dict[str, Any], frame: Frame) -> None:
    """Fields stand under the frame's type or beside it, and what is not known is let pass."""
    assert read_frame(json.dumps(content), "") == frame


FAULTS: dict[str, tuple[str, str]] = {
    "no JSON": ("{", "not JSON"),
    "too deep": ("[" * 100_000, "not JSON"),
    "no object": ("[]", "no object with a type"),
    "no type": ('{"content":"x"}', "no object with a type"),
    "a type that is no text": ('{"type":["chunk"]}', "no object with a type"),
    "an unknown type": ('{"type":"reasoning"}', "unknown type 'reasoning'"),
    "another session": ('{"type":"chunk","session_id":"t","content":"x"}', "another session"),
    "text that is none": ('{"type":"chunk","content":["x"]}', 'content ["x"]'),
    "a session without a name": ('{"type":"connected"}', "no session_id"),
    "a name without an end": (json.dumps({"type": "connected", "session_id": "x" * 300}), "session_id"),
    "a call of nothing": ('{"type":"tool_call","tool_call":{"id":"1"}}', "no name"),
    "arguments in a list": ('{"type":"tool_call","name":"n","arguments":[1]}', "arguments [1]"),
    "an error of a call in an object": ('{"type":"tool_result","tool_result":{"id":"1","error":{"a":1}}}', "error"),
    "a message without content": ('{"type":"message","session_id":"s"}', "no content"),
    "tokens below nothing": ('{"type":"done","usage":{"input_tokens":-1}}', "usage"),
    "half a token": ('{"type":"done","usage":{"input_tokens":1.5}}', "usage"),
    "true tokens": ('{"type":"done","usage":{"input_tokens":true}}', "usage"),
    "usage in a list": ('{"type":"done","usage":[1]}', "usage [1]"),
    "a cost that is no number": ('{"type":"done","cost_usd":NaN}', "cost_usd NaN"),
    "a cost of words": ('{"type":"done","cost_usd":"much"}', 'cost_usd "much"'),
    "an error that is a list": ('{"type":"error","error":{"code":[],"message":"m"}}', "error"),
}


@pytest.mark.parametrize(("text", "cause"), FAULTS.values(), ids=FAULTS.keys())
def test_what_is_no_frame_is_refused(text: str, cause: str) -> None:
    """A frame that is none of the protocol's says what is wrong with it."""
    with pytest.raises(FrameFault) as refused:
        read_frame(text, "" if "connected" in text else "s")
    assert cause in str(refused.value)


def test_text_that_has_no_utf_8_form_is_still_written() -> None:
    """A lone surrogate, which a model may well send, costs no session."""
    assert read_frame(write_frame(Said("a\ud800b"), "s"), "s") == Said("a\ufffdb")
