"""pkt-lines: how git frames what it says over a wire.

Owns encoding and incremental decoding (gitprotocol-common). Must not know what the lines mean.
"""

from collections.abc import Iterator

FLUSH = b"0000"
MAX_LINE_BYTES = 65520
_HEADER_BYTES = 4


class BadLine(ValueError):
    """The bytes are no pkt-line."""


def encode(payload: bytes) -> bytes:
    """Frame one payload of at most 65,516 bytes."""
    if len(payload) + _HEADER_BYTES > MAX_LINE_BYTES:
        raise BadLine(f"a payload of {len(payload)} bytes is too long")
    return b"%04x" % (len(payload) + _HEADER_BYTES) + payload


def encode_band(band: int, data: bytes) -> Iterator[bytes]:
    """Frame `data` for one side-band-64k channel, in as many lines as it takes: 1 is data, 2 is what the client prints after `remote: `."""
    size = MAX_LINE_BYTES - _HEADER_BYTES - 1
    for start in range(0, len(data), size):
        yield encode(bytes([band]) + data[start : start + size])


class LineReader:
    """Take bytes in any portions and give whole lines: the payload of each, None for a flush."""

    def __init__(self) -> None:
        self._pending = bytearray()

    @property
    def rest(self) -> bytes:
        """The bytes that no line has taken yet."""
        return bytes(self._pending)

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        self._pending += data

    def lines(self) -> Iterator[bytes | None]:
        """Yield each whole line that the bytes so far make; a caller may stop in between, `rest` then begins with the next line.

        Raises:
            BadLine: the next four bytes are no length; delim and response-end packets (0001, 0002) belong to requests that are not read here.
        """
        while len(self._pending) >= _HEADER_BYTES:
            length = _length(bytes(self._pending[:_HEADER_BYTES]))
            if len(self._pending) < max(length, _HEADER_BYTES):
                return
            payload = bytes(self._pending[_HEADER_BYTES:length]) if length else None
            del self._pending[: max(length, _HEADER_BYTES)]
            yield payload


def _length(header: bytes) -> int:
    try:
        length = int(header, 16) if header.isalnum() else -1
    except ValueError:
        length = -1
    if not (length == 0 or _HEADER_BYTES <= length <= MAX_LINE_BYTES):
        raise BadLine(f"{header!r} is no length of a line")
    return length
