"""Checks of media: a table with edges. What a part does not say counts against it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checks import prepare_check, validate_check
from engine.checks.evidence import CallRecord, Evidence, Outcome
from engine.checks.media import PRESETS
from engine.providers.messages import Message, ToolCall, ToolResult
from tests.checks.conftest import Ask


def part(kind: str, mime: str = "", **more: Any) -> dict[str, Any]:
    """Return a media part."""
    return {"type": kind, "media": ({"mimeType": mime} if mime else {}) | more}


def said(*parts: dict[str, Any]) -> list[Message]:
    """Return a conversation in which the assistant says these parts; the user's picture is nobody's business."""
    return [Message("user", "Hi", parts=[part("image", "image/tiff")]), Message("assistant", "", parts=list(parts))]


PNG, JPEG = part("image", "image/png", width=800, height=600), part("image", "image/jpeg; q=1", width=400, height=300)


@pytest.mark.parametrize(
    ("check", "params", "parts", "score"),
    [
        pytest.param("image_format", {"formats": ["png"]}, (PNG,), 1, id="the format"),
        pytest.param("image_format", {"formats": ["PNG", "jpg"]}, (PNG, JPEG), 1, id="any case and spelling, parameters of a type left out"),
        pytest.param("image_format", {"formats": ["png"]}, (PNG, JPEG), 0, id="every image must fit"),
        pytest.param("image_format", {"formats": ["png"]}, (), 0, id="no image at all"),
        pytest.param("image_format", {"formats": ["png"]}, (part("image"),), 0, id="an image without a type"),
        pytest.param("image_format", {"formats": "png"}, (PNG,), 1, id="a single format"),
        pytest.param("audio_format", {"formats": ["mp3"]}, (part("audio", "audio/mpeg"),), 1, id="audio/mpeg is mp3"),
        pytest.param("audio_format", {"formats": ["wav"]}, (part("audio", "audio/x-wav"),), 1, id="an old name of wav"),
        pytest.param("audio_format", {"formats": ["mp3"]}, (PNG,), 0, id="an image is no audio"),
        pytest.param("image_dimensions", {"min_width": 400, "max_height": 600}, (PNG, JPEG), 1, id="the bounds belong to the range"),
        pytest.param("image_dimensions", {"min_width": 401}, (PNG, JPEG), 0, id="one is too narrow"),
        pytest.param("image_dimensions", {"width": 800, "height": 600}, (PNG,), 1, id="the very size"),
        pytest.param("image_dimensions", {"width": 800}, (JPEG,), 0, id="another size"),
        pytest.param("image_dimensions", {"max_width": 10}, (part("image", "image/png"),), 0, id="a size that is not known"),
        pytest.param("image_dimensions", {}, (part("image", "image/png"),), 1, id="no size is asked for"),
        pytest.param("audio_duration", {"min_seconds": 2.5, "max_seconds": 2.5}, (part("audio", durationS=2.5),), 1, id="to the bound"),
        pytest.param("audio_duration", {"max_seconds": 2.4}, (part("audio", durationS=2.5),), 0, id="too long"),
        pytest.param("audio_duration", {}, (part("audio"),), 0, id="a length that is not known"),
        pytest.param("video_duration", {"min_seconds": 1}, (part("video", durationS=0.5),), 0, id="too short"),
        pytest.param("video_resolution", {"presets": ["1080p"]}, (part("video", height=1080),), 1, id="a preset by height"),
        pytest.param("video_resolution", {"presets": ["4K", "8k"]}, (part("video", height=2160),), 1, id="one of several, in any case"),
        pytest.param("video_resolution", {"presets": ["720p"]}, (part("video", height=1080),), 0, id="another height"),
        pytest.param("video_resolution", {"min_width": 1}, (part("video", height=1080),), 0, id="a width that is not known"),
        pytest.param("video_resolution", {"min_height": 1}, (part("video", height=True),), 0, id="true is no height"),
    ],
)
def test_media_checks(ask: Ask, check: str, params: dict[str, Any], parts: tuple[dict[str, Any], ...], score: float) -> None:
    """All media of a kind that the assistant sends must be as wanted, and there must be one."""
    assert ask(check, params, messages=said(*parts)).score == score


def test_media_in_tool_results_count() -> None:
    """A picture that a tool returned is looked at too."""
    result = ToolResult("c", "draw", "ok", parts=[PNG])
    evidence = Evidence(messages=[Message("tool", "ok", tool_result=result)])
    outcome = prepare_check("image_format", {"formats": ["png"]})(evidence)
    assert isinstance(outcome, Outcome)
    assert outcome.score == 1


@pytest.mark.parametrize(
    ("check", "params", "score"),
    [
        pytest.param("tool_result_has_media", {"tool": "draw", "media_type": "image"}, 1, id="of this kind"),
        pytest.param("tool_result_has_media", {"media_type": "image"}, 1, id="of any tool"),
        pytest.param("tool_result_has_media", {"tool": "draw", "media_type": "audio"}, 0, id="of another kind"),
        pytest.param("tool_result_has_media", {"tool": "paint", "media_type": "image"}, 0, id="of another tool"),
        pytest.param("tool_result_media_type", {"tool": "draw", "mime_type": "IMAGE/png"}, 1, id="the type, in any case"),
        pytest.param("tool_result_media_type", {"tool": "draw", "mime_type": "image/jpeg"}, 0, id="another type"),
    ],
)
def test_media_of_tools(ask: Ask, check: str, params: dict[str, Any], score: float) -> None:
    """One result with such a part is enough; call ids that repeat do not mix results up."""
    calls = [
        CallRecord(ToolCall("c", "draw", {}), ToolResult("c", "draw", "ok", parts=[{"type": "text", "text": "x"}])),
        CallRecord(ToolCall("c", "draw", {}), ToolResult("c", "draw", "ok", parts=[PNG])),
    ]
    assert ask(check, params, calls=calls).score == score


def test_an_unknown_preset_is_refused() -> None:
    """A preset that nobody knows is a fault of the bundle."""
    [problem] = validate_check("video_resolution", {"presets": ["900p"]})
    assert "'900p', which is none of 480p" in problem.message


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 10_000))
def test_bounds(size: int, least: int, most: int) -> None:
    """A size passes exactly when it lies between the bounds, both included."""
    evidence = Evidence(messages=said(part("image", width=size, height=1)))
    outcome = prepare_check("image_dimensions", {"min_width": least, "max_width": most})(evidence)
    assert isinstance(outcome, Outcome)
    assert (outcome.score == 1) is (least <= size <= most)


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_presets_are_heights(ask: Ask, preset: str) -> None:
    """Every preset accepts its own height alone."""
    assert ask("video_resolution", {"presets": [preset.upper()]}, messages=said(part("video", height=PRESETS[preset]))).score == 1
    assert ask("video_resolution", {"presets": [preset]}, messages=said(part("video", height=PRESETS[preset] + 1))).score == 0
