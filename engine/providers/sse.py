"""Server-sent events out of bytes, as they come: any line ending, cuts anywhere, comments, several data lines (WHATWG HTML, 9.2).

Owns that format, and how long an event may be. Must not know what the events say.
"""

from typing import Final

from engine.errors import ProviderError
from engine.providers.wire import Event

MAX_EVENT_BYTES: Final = 32 << 20
"""The longest event that is read: pictures come whole in one."""

_BOM: Final = b"\xef\xbb\xbf"


class EventReader:
    """Reads one stream. `feed` it what comes, then ask once for what the `end` leaves.

    A comment is no event, and neither is a block without data. An event whose closing blank line never came still counts: servers leave it out at the
    end of a stream.
    """

    __slots__ = ("_begun", "_data", "_max_event_bytes", "_name", "_pieces", "_returned", "_size_bytes")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._pieces: list[bytes] = []
        self._data: list[str] = []
        self._name = ""
        self._size_bytes = 0
        self._returned = False
        self._begun = False

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that `data` completes, in order.

        Raises:
            ProviderError: an event is longer than the limit (`protocol`).
        """
        if self._returned or b"\r" in data:
            data = self._with_line_feeds(data)
        elif self._begun and not self._pieces and not self._data and data.endswith(b"\n\n") and data.startswith(b"data: "):
            text = data[6:-2]
            if b"\n" not in text:  # one event and nothing else, as servers send while a model writes
                name, self._name, self._size_bytes = self._name, "", 0
                return [Event(name, text.decode("utf-8", "replace"))]
        self._size_bytes += len(data)
        if b"\n" not in data:
            if self._size_bytes > self._max_event_bytes:
                raise self._too_long()
            self._pieces.append(data)
            return []
        if self._pieces:
            self._pieces.append(data)
            data = b"".join(self._pieces)
        *lines, rest = data.split(b"\n")
        self._pieces = [rest] if rest else []
        return self._read(lines, rest)

    def end(self) -> list[Event]:
        """Return the event that the end of the stream completes, if any."""
        return [*self._read([*b"".join(self._pieces).split(b"\n"), b""], b"")]

    def _read(self, lines: list[bytes], rest: bytes) -> list[Event]:
        if not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(_BOM)
        events: list[Event] = []
        for line in lines:
            if not line:
                if self._data:
                    events.append(Event(self._name, self._data[0] if len(self._data) == 1 else "\n".join(self._data)))
                    self._data = []
                self._name = ""
                self._size_bytes = len(rest)
            elif line.startswith(b"data:"):
                self._data.append(line[6 if line[5:6] == b" " else 5 :].decode("utf-8", "replace"))
            elif line.startswith(b"event:"):
                self._name = line[6:].decode("utf-8", "replace").removeprefix(" ")
            elif line == b"data":
                self._data.append("")
        if self._size_bytes > self._max_event_bytes:
            raise self._too_long()
        return events

    def _with_line_feeds(self, data: bytes) -> bytes:
        """Return `data` with line feeds alone; a carriage return at its end has ended a line already, whatever follows."""
        if self._returned and data.startswith(b"\n"):
            data = data[1:]
        elif not data:
            return data
        self._returned = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _too_long(self) -> ProviderError:
        return ProviderError(f"cannot read the stream: an event is longer than {self._max_event_bytes >> 10} KiB", kind="protocol", transient=False)
