"""Parts of messages: what may be written, and the one shape that they all have afterwards."""

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.bundle import load_bundle
from engine.bundle.model import Media, Part
from engine.bundle.parts import mock_part, recorded_part, written_part
from engine.bundle.scenario_reader import MAX_MEDIA_BYTES
from engine.errors import BundleInvalid

Write = Callable[[Mapping[str, str | bytes | None]], Path]


@pytest.mark.parametrize(
    ("part", "json"),
    [
        (Part("text", "hi"), {"type": "text", "text": "hi"}),
        (
            Part("image", media=Media(file_path="a.png", mime_type="image/png", width=2, height=3, caption="c")),
            {"type": "image", "media": {"mimeType": "image/png", "filePath": "a.png", "caption": "c", "width": 2, "height": 3}},
        ),
        (
            Part("document", media=Media(url="https://a.example/b.pdf", mime_type="application/pdf")),
            {"type": "document", "media": {"mimeType": "application/pdf", "url": "https://a.example/b.pdf"}},
        ),
    ],
    ids=["text", "a file", "an address"],
)
def test_written_parts(part: Part, json: dict[str, Any]) -> None:
    """What is not known is left out."""
    assert written_part(part) == json


@pytest.mark.parametrize(
    ("part", "json"),
    [
        ({"type": "text", "text": "hi"}, {"type": "text", "text": "hi"}),
        (
            {"type": "image", "image_url": {"url": "mock://a", "detail": "high"}, "metadata": {"format": "PNG", "width": 2, "size_kb": 3}},
            {"type": "image", "media": {"mimeType": "image/png", "url": "mock://a", "detail": "high", "width": 2, "sizeBytes": 3072}},
        ),
        (
            {"type": "audio", "audio_url": {"url": "a.mp3"}, "metadata": {"format": "mp3", "duration_seconds": 2.5, "size": 9}},
            {"type": "audio", "media": {"mimeType": "audio/mpeg", "url": "a.mp3", "durationS": 2.5, "sizeBytes": 9}},
        ),
        ({"type": "image", "metadata": {"format": "jpg"}}, {"type": "image", "media": {"mimeType": "image/jpeg"}}),
        ({"type": "video", "metadata": {"format": "video/webm"}}, {"type": "video", "media": {"mimeType": "video/webm"}}),
    ],
    ids=["text", "an image", "audio", "a jpg", "a whole type"],
)
def test_mock_parts(part: dict[str, Any], json: dict[str, Any]) -> None:
    """A mock's own spelling becomes everybody's (promptkit-format.md 4.5)."""
    assert mock_part(part) == json


def test_recorded_parts() -> None:
    """The reference's spelling too; what has no media has none."""
    assert recorded_part({"type": "image", "media": {"mime_type": "image/png", "duration": 1, "odd": 2}}) == {
        "type": "image",
        "media": {"mimeType": "image/png", "durationS": 1},
    }
    assert recorded_part({"type": 5}) == {"type": "", "media": {}}


SCENARIO = "kind: Scenario\nmetadata:\n  name: hello\nspec:\n  task_type: assistant\n  turns:\n    - role: user\n      parts: [{part}]\n"


@pytest.mark.parametrize(
    ("part", "cause"),
    [
        ("{type: image}", "a part of type image needs media"),
        ("{type: image, media: {url: 'https://a'}}", "have no mime_type"),
        ("{type: image, media: {mime_type: image/png}}", "it needs one source, not 0"),
        ("{type: image, media: {mime_type: image/png, url: 'https://a', data: aGk=}}", "it needs one source, not 2"),
        ("{type: image, media: {mime_type: image/png, url: 'file:///etc/passwd'}}", "is no http or https address"),
        ("{type: image, media: {mime_type: image/png, data: '?'}}", "'data' is not base64"),
        ("{type: image, media: {mime_type: image/png, storage_reference: s3}}", "a store that only its writer knows"),
        ("{type: image, media: {mime_type: image/png, file_path: absent.png}}", "cannot find 'absent.png'"),
        ("{type: image, media: {mime_type: image/png, file_path: ../../outside.png}}", "the path leaves the bundle"),
        ("{type: image, media: {mime_type: image/png, file_path: huge.png}}", "'huge.png' is over the limit of 20 MiB"),
    ],
)
def test_a_part_that_nobody_could_send_is_refused(write: Write, part: str, cause: str) -> None:
    """When the bundle is loaded, by its line: not when the model is asked."""
    root = write({"scenarios/hello.yaml": SCENARIO.replace("{part}", part)})
    with (root / "huge.png").open("wb") as stream:
        stream.truncate(MAX_MEDIA_BYTES + 1)
    with pytest.raises(BundleInvalid) as caught:
        load_bundle(root)
    assert cause in caught.value.message
    assert caught.value.message.startswith("scenarios/hello.yaml:8")


@pytest.mark.parametrize("source", ["url: 'https://a.example/x.png'", f"data: {base64.b64encode(b'x').decode()}", "file_path: a.png"])
def test_a_part_of_each_source(write: Write, source: str) -> None:
    """An address, data in the file, or a file of the bundle."""
    root = write({"scenarios/hello.yaml": SCENARIO.replace("{part}", f"{{type: image, media: {{mime_type: image/png, {source}}}}}"), "a.png": b"x"})
    (found,) = load_bundle(root).scenarios["hello"].turns[0].parts
    assert found.media is not None
    assert found.media.mime_type == "image/png"
