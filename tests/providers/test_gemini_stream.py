"""Google's streams: responses that are pieces of a reply, any cut, and what breaks off."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ProviderError
from engine.items import Usage
from engine.providers.wires.gemini import Gemini, GeminiOptions
from engine.providers.wires.gemini_contents import SIGNATURES
from tests.providers.vendor_streams import GEMINI, GEMINI_CALLING, GEMINI_USAGE, gemini, heard, unnamed

WIRE = Gemini(GeminiOptions("gemini-2.5-flash"))


def test_a_stream_of_text() -> None:
    """Text comes as it is said, thoughts are none; the last usage counts."""
    reply, text = heard(WIRE, unnamed(GEMINI))
    assert reply.text == text == "Grüße, world\n!"
    assert (reply.finish_reason, reply.usage, reply.meta) == ("stop", Usage(14, 12, 3, 7), {})


def test_a_stream_of_calls() -> None:
    """Calls come whole; what they and the text were signed with is kept, even where it comes in an empty piece."""
    reply, text = heard(WIRE, unnamed(GEMINI_CALLING))
    assert reply.text == text == "Looking"
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("look", {"place": "Zürich"}), ("now", {})]
    assert reply.tool_calls[1].id == "f2"
    assert reply.meta[SIGNATURES] == {"text": "dGV4dA==", "calls": ["c2ln", None]}


@given(cuts=st.lists(st.integers(0, 4000), max_size=12))
def test_any_cut_gives_the_same_reply(cuts: list[int]) -> None:
    """Bytes arrive in any pieces."""
    data = unnamed(GEMINI)
    assert heard(WIRE, data, [cut % len(data) for cut in cuts]) == heard(WIRE, data)


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_line_endings(ending: bytes) -> None:
    """Google ends lines with CRLF, gateways as they like."""
    assert heard(WIRE, unnamed(GEMINI).replace(b"\n", ending)) == heard(WIRE, unnamed(GEMINI))


def test_usage_may_come_after_the_reason() -> None:
    """A stream is read to its end: a last response has nothing but usage."""
    late = (gemini({"text": "x"}, reason="STOP"), {"usageMetadata": GEMINI_USAGE})
    assert heard(WIRE, unnamed(late))[0].usage == Usage(14, 12, 3, 7)


@pytest.mark.parametrize("kept", range(len(GEMINI)))
def test_a_stream_that_ends_early_is_an_error(kept: int) -> None:
    """Without a reason of its end what came is no reply; another attempt may bring it."""
    with pytest.raises(ProviderError, match="ended before it was complete") as broken:
        heard(WIRE, unnamed(GEMINI[:kept]))
    assert (broken.value.kind, broken.value.transient) == ("protocol", True)


def test_a_reason_that_is_none_ends_nothing() -> None:
    """A piece whose reason is unspecified does not say that the reply is complete."""
    with pytest.raises(ProviderError, match="ended before it was complete"):
        heard(WIRE, unnamed([gemini({"text": "x"}, reason="FINISH_REASON_UNSPECIFIED")]))


def test_a_prompt_that_is_blocked_in_a_stream() -> None:
    """A blocked prompt has one response without candidates, and the stream is complete."""
    assert heard(WIRE, unnamed([{"promptFeedback": {"blockReason": "SAFETY"}}]))[0].finish_reason == "content_filter"


def test_a_reply_that_is_filtered_midway_keeps_its_text() -> None:
    """What was said before the filter is the reply's text."""
    reply, _ = heard(WIRE, unnamed((GEMINI[1], gemini(reason="SAFETY"))))
    assert (reply.text, reply.finish_reason, reply.meta["refusal"]) == ("Grüße, ", "content_filter", {"category": "SAFETY"})


@pytest.mark.parametrize("kept", [0, 2])
@pytest.mark.parametrize(
    ("error", "kind", "transient"),
    [
        pytest.param({"code": 503, "message": "sorry", "status": "UNAVAILABLE"}, "unavailable", True, id="overloaded"),
        pytest.param({"code": 429, "message": "sorry", "status": "RESOURCE_EXHAUSTED"}, "rate_limit", True, id="too many"),
        pytest.param({"message": "sorry", "status": "INVALID_ARGUMENT"}, "invalid_request", False, id="without a code"),
        pytest.param({"message": "sorry"}, "unavailable", True, id="words alone"),
    ],
)
def test_an_error_inside_a_stream(kept: int, error: dict[str, Any], kind: str, transient: bool) -> None:  # noqa: FBT001 - a table's column
    """An error ends the stream as what it says, whatever came before it."""
    with pytest.raises(ProviderError, match="sorry") as said:
        heard(WIRE, unnamed((*GEMINI[:kept], {"error": error})))
    assert (said.value.kind, said.value.transient) == (kind, transient)


@pytest.mark.parametrize("data", [b"data: not JSON\n\n", b"data: 1\n\n", b'data: {"candidates": "x"}\n\n', b'data: {"candidates": [1]}\n\n'])
def test_events_of_another_shape_are_errors(data: bytes) -> None:
    """What is no response of the protocol is an error, never a shorter reply."""
    with pytest.raises(ProviderError) as unreadable:
        heard(WIRE, data + unnamed(GEMINI))
    assert (unreadable.value.kind, unreadable.value.transient) == ("protocol", True)
