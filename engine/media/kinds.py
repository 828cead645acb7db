"""What some bytes are, by how they begin: a picture, a sound, a film, a document, a web page.

Owns the marks of formats and the other names of MIME types. Must not know where the bytes come from.
"""

import re
from collections.abc import Mapping

_OTHER_NAMES: Mapping[str, str] = {
    "image/jpg": "image/jpeg",
    "image/x-png": "image/png",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/m4a": "audio/mp4",
    "audio/x-m4a": "audio/mp4",
    "audio/x-flac": "audio/flac",
    "application/x-pdf": "application/pdf",
}
_MARKS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (0, b"BM", "image/bmp"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"\xff\xf3", "audio/mpeg"),
    (0, b"\xff\xf2", "audio/mpeg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"OggS", "audio/ogg"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftypheic", "image/heic"),
    (4, b"ftypM4A", "audio/mp4"),
    (4, b"ftypqt", "video/quicktime"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (0, b"%PDF-", "application/pdf"),
)
"""Where a format has its mark, the mark, and the format; the first that fits counts."""

_MARKED = frozenset(kind for _, _, kind in _MARKS)
_CONTAINERS = ({"video/mp4", "audio/mp4", "video/quicktime"}, {"video/webm", "audio/webm"}, {"audio/ogg", "video/ogg"})
"""Formats that share a mark: what is in the container, its beginning does not say."""

_PAGE = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_LOOKED_AT = 1024


def kind_of(content: bytes) -> str:
    """Return the MIME type that bytes have by their beginning, "" when it has no mark."""
    for place, mark, kind in _MARKS:
        if content.startswith(mark, place):
            return kind
    return "text/html" if _PAGE.match(content[:_LOOKED_AT]) else ""


def mismatch(declared: str, content: bytes) -> str:
    """Say how bytes differ from the MIME type that is declared for them, "" when they may be it.

    A type whose format has no mark (text, raw audio, SVG) is believed, unless the bytes have the mark of another.
    """
    wanted, found = _plain(declared), kind_of(content)
    if not content:
        return "it is empty"
    if found == wanted or any({wanted, found} <= container for container in _CONTAINERS):
        return ""
    if found:
        return f"it is {found}, not {declared}"
    return f"it is not {declared}" if wanted in _MARKED else ""


def _plain(declared: str) -> str:
    kind = declared.partition(";")[0].strip().lower()
    return _OTHER_NAMES.get(kind, kind)
