"""Parts of a message as OpenAI's protocols take them: pictures as data URLs, sound and documents as data.

Owns that table for both protocols. Parts are of the shape of `engine.bundle.parts`, with `data` filled in.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from engine.errors import ProviderError

Part = Mapping[str, Any]

_SOUNDS: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def chat_parts(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return the content of a user's message in chat completions.

    Raises:
        ProviderError: a part has no place there, or holds no data (`invalid_request`).
    """
    return [_chat_part(part) for part in parts]


def response_parts(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return the content of a user's message, or of a tool's output, in the responses protocol.

    Raises:
        ProviderError: as `chat_parts`.
    """
    return [_response_part(part) for part in parts]


def _chat_part(part: Part) -> dict[str, Any]:
    kind, media = part.get("type"), part.get("media") or {}
    if kind == "text":
        return {"type": "text", "text": part.get("text", "")}
    if kind == "image":
        detail = {"detail": media["detail"]} if media.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": _address(kind, media), **detail}}
    if kind == "audio":
        form = _SOUNDS.get(str(media.get("mimeType")))
        if form is None:
            raise _no_place(f"audio of type {media.get('mimeType') or 'unknown'}", "wav and mp3 only")
        return {"type": "input_audio", "input_audio": {"data": _data(kind, media), "format": form}}
    if kind == "document":
        return {"type": "file", "file": {"filename": _name(media), "file_data": _address(kind, media)}}
    raise _no_place(str(kind), "text, image, audio and document only")


def _response_part(part: Part) -> dict[str, Any]:
    kind, media = part.get("type"), part.get("media") or {}
    if kind == "text":
        return {"type": "input_text", "text": part.get("text", "")}
    if kind == "image":
        return {"type": "input_image", "image_url": _address(kind, media), "detail": media.get("detail") or "auto"}
    if kind == "document":
        return {"type": "input_file", "filename": _name(media), "file_data": _address(kind, media)}
    raise _no_place(str(kind), "text, image and document only")


def _address(kind: str, media: Mapping[str, Any]) -> str:
    return f"data:{media.get('mimeType') or _UNKNOWN[kind]};base64,{_data(kind, media)}"


_UNKNOWN: Final = {"image": "image/png", "document": "application/pdf"}


def _data(kind: str, media: Mapping[str, Any]) -> str:
    data = media.get("data")
    if not isinstance(data, str) or not data:
        raise ProviderError(f"cannot send a part of type {kind}: it has no data", kind="invalid_request", transient=False)
    return data


def _name(media: Mapping[str, Any]) -> str:
    return str(media.get("filePath") or media.get("url") or "document.pdf").rpartition("/")[2].partition("?")[0] or "document.pdf"


def _no_place(what: str, known: str) -> ProviderError:
    return ProviderError(f"cannot send {what}: this protocol takes {known}", kind="invalid_request", transient=False)
