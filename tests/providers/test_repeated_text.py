"""Events that differ in their text alone are read as JSON once, and never read otherwise than JSON would."""

import json
from typing import Any

import pytest

from engine.providers.wire import Event
from engine.providers.wires.openai_chat import OpenAiChat, OpenAiOptions
from engine.providers.wires.repeated import RepeatedText

TEXTS = ["Hi", " there", '"', "\\", 'a "quoted" word', "süß 🎈", "line\nline", '","content":"', "", "}", "finish_reason", "\\u0041"]


def chunk(text: str, **more: Any) -> dict[str, Any]:
    """Return a chunk of a stream."""
    return {"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
@pytest.mark.parametrize("first", TEXTS)
def test_what_is_learned_is_what_json_says(first: str, separators: tuple[str, str]) -> None:
    """After any first text, each text is what JSON has there, or is left to JSON."""
    learned = RepeatedText("content")
    data = json.dumps(chunk(first), separators=separators, ensure_ascii=False)
    learned.learn(data, first)
    for text in TEXTS:
        assert learned.text(json.dumps(chunk(text), separators=separators, ensure_ascii=False)) in ("", text)


def test_plain_texts_are_not_read_as_json() -> None:
    """A text without escapes is found by what stands around it."""
    learned = RepeatedText("content")
    learned.learn(json.dumps(chunk("Hi")), "Hi")
    assert learned.text(json.dumps(chunk(" there"))) == " there"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"id": "c", "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}, id="a finish reason"),
        pytest.param(chunk("x", usage={"prompt_tokens": 1}), id="usage"),
        pytest.param({"id": "d", "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}]}, id="another id"),
        pytest.param({"error": {"message": "x"}}, id="an error"),
        pytest.param({"id": "c", "choices": [{"index": 0, "delta": {"content": "x", "tool_calls": []}, "finish_reason": None}]}, id="more than text"),
    ],
)
def test_what_says_more_is_read_as_json(other: dict[str, Any]) -> None:
    """An event that is anything else but its text is left to JSON."""
    learned = RepeatedText("content")
    learned.learn(json.dumps(chunk("Hi")), "Hi")
    assert learned.text(json.dumps(other)) == ""


@pytest.mark.parametrize(
    ("data", "text"),
    [('{"content":"Hi","x":{"content":"Hi"}}', "Hi"), ('{"content":"\\u0048i"}', "Hi"), ('{"text":"Hi"}', "Hi")],
    ids=["twice", "escaped", "another key"],
)
def test_what_cannot_be_told_is_not_learned(data: str, text: str) -> None:
    """An event whose text stands nowhere, or not where it must, teaches nothing."""
    learned = RepeatedText("content")
    learned.learn(data, text)
    assert learned.text(data) == ""


def test_a_stream_learns() -> None:
    """The texts of a stream are the same with what it learns on the way."""
    listening = OpenAiChat(OpenAiOptions(model="m")).listen()
    texts = [*TEXTS, *TEXTS]
    taken = [listening.take(Event("", json.dumps(chunk(text)))) for text in texts]
    listening.take(Event("", "[DONE]"))
    assert taken == texts
    assert listening.finish().text == "".join(texts)
