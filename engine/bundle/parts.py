"""Parts of messages in the one shape that conversations, checks and results.jsonl share, whoever wrote them.

`{"type": "text", "text": …}`, or `{"type": "image" | "audio" | "video" | "document", "media": {…}}` with any of `mimeType, width, height, durationS,
sizeBytes, bitRate, channels, fps, filePath, url, data, caption, detail`; what is not known is left out. Owns that shape. Must not open media.
"""

from collections.abc import Mapping
from typing import Any

from engine.bundle.model import Media, Part

JsonPart = dict[str, Any]

_RECORDED_KEYS = {
    "mime_type": "mimeType",
    "file_path": "filePath",
    "url": "url",
    "data": "data",
    "caption": "caption",
    "detail": "detail",
    "width": "width",
    "height": "height",
    "duration": "durationS",
    "size_bytes": "sizeBytes",
}
_MOCK_KEYS = {
    "width": "width",
    "height": "height",
    "duration_seconds": "durationS",
    "duration": "durationS",
    "bit_rate": "bitRate",
    "channels": "channels",
    "fps": "fps",
    "caption": "caption",
}
_MIME_TYPES = {
    "image": {"jpg": "image/jpeg"},
    "audio": {"mp3": "audio/mpeg", "m4a": "audio/mp4"},
    "video": {"mov": "video/quicktime"},
}
"""MIME types whose second half is not the format's own name."""

_KIBIBYTE = 1024


def written_part(part: Part) -> JsonPart:
    """Return a part that a scenario or a tool has in its file."""
    if part.type == "text":
        return {"type": "text", "text": part.text}
    media = part.media or Media()
    known = {
        "mimeType": media.mime_type,
        "filePath": media.file_path,
        "url": media.url,
        "data": media.data,
        "caption": media.caption,
        "detail": media.detail,
        "width": media.width,
        "height": media.height,
    }
    return {"type": part.type, "media": {key: value for key, value in known.items() if value}}


def mock_part(part: Mapping[str, Any]) -> JsonPart:
    """Return a part of a mock's reply: `{type, <type>_url: {url, detail}, metadata: {format, width, …}}` (promptkit-format.md 4.5)."""
    kind = str(part["type"])
    if kind == "text":
        return {"type": "text", "text": part.get("text", "")}
    link, metadata = part.get(f"{kind}_url") or {}, part.get("metadata") or {}
    media: dict[str, Any] = {}
    if form := str(metadata.get("format") or "").lower():
        media["mimeType"] = form if "/" in form else _MIME_TYPES.get(kind, {}).get(form, f"{kind}/{form}")
    media |= {key: link[key] for key in ("url", "detail") if link.get(key)}
    media |= {ours: metadata[theirs] for theirs, ours in _MOCK_KEYS.items() if metadata.get(theirs) is not None}
    size = metadata.get("size", (metadata.get("size_kb") or 0) * _KIBIBYTE)
    return {"type": kind, "media": media | ({"sizeBytes": size} if size else {})}


def recorded_part(part: Mapping[str, Any]) -> JsonPart:
    """Return a part of a recording, as the format's reference engine writes it."""
    media = part.get("media")
    known = {ours: media[theirs] for theirs, ours in _RECORDED_KEYS.items() if media.get(theirs) is not None} if isinstance(media, Mapping) else {}
    kind = part.get("type")
    return {"type": kind if isinstance(kind, str) else "", "media": known}
