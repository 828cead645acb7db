"""What a push says and hears: the command list of git-receive-pack's request, and the report that answers it.

Owns both texts (gitprotocol-pack, "Pushing Data To a Server"). Must not know which push is allowed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gitops import pktline
from gitops.pktline import BadLine, LineReader

MAX_COMMANDS = 20_000
MAX_COMMANDS_BYTES = 4 << 20
_MAX_SAID_BYTES = 256 * 1024
_COMMAND = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) (refs/[^\0\n]{1,1000}|HEAD)")
_SIDE_BAND = "side-band-64k"
_DATA, _PROGRESS = 1, 2


@dataclass(frozen=True, slots=True)
class RefCommand:
    """One ref that the client wants to move from `old` to `new`; all zeros mean that it does not exist (yet, or any more)."""

    old: str
    new: str
    ref: bytes

    @property
    def deletes(self) -> bool:
        """Whether the ref is to be removed."""
        return not self.new.strip("0")

    @property
    def name(self) -> str:
        """The ref as text."""
        return self.ref.decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class PushRequest:
    """The commands of a push and what the client can understand. `head` is their exact bytes; `tail` is what was read beyond them."""

    commands: tuple[RefCommand, ...]
    capabilities: frozenset[str]
    head: bytes
    tail: bytes

    @property
    def wants_report(self) -> bool:
        """Whether the client waits for the fate of each ref."""
        return bool(self.capabilities & {"report-status", "report-status-v2"})

    @property
    def has_side_band(self) -> bool:
        """Whether the client prints what it is told beside the report."""
        return _SIDE_BAND in self.capabilities


class PushRequestReader:
    """Collects the command list from the first bytes of a request body."""

    def __init__(self) -> None:
        self._reader = LineReader()
        self._head = bytearray()
        self._commands: list[RefCommand] = []
        self._capabilities: frozenset[str] = frozenset()

    def feed(self, data: bytes) -> PushRequest | None:
        """Add bytes; return the request when its list is complete.

        Raises:
            BadLine: the bytes are no command list, or one that is too long.
        """
        self._reader.feed(data)
        for line in self._reader.lines():
            if line is None:
                self._head += pktline.FLUSH
                return PushRequest(tuple(self._commands), self._capabilities, bytes(self._head), self._reader.rest)
            self._head += pktline.encode(line)
            self._take(line)
        if len(self._head) + len(self._reader.rest) > MAX_COMMANDS_BYTES:
            raise BadLine("the list of refs is too long")
        return None

    def _take(self, line: bytes) -> None:
        if line.startswith(b"shallow "):
            return
        command, _, capabilities = line.partition(b"\0")
        if not self._commands:
            self._capabilities = frozenset(capabilities.decode("utf-8", "replace").split())
        match = _COMMAND.fullmatch(command.rstrip(b"\n"))
        if match is None:
            raise BadLine("a line is no ref command")
        if len(self._commands) >= MAX_COMMANDS:
            raise BadLine(f"more than {MAX_COMMANDS} refs in one push")
        self._commands.append(RefCommand(match[1].decode(), match[2].decode(), match[3]))


def refusal(request: PushRequest, causes: Mapping[bytes, str], words: Sequence[str]) -> bytes:
    """Return the answer that refuses a whole push.

    `causes` has a short cause for each ref at fault; the other refs of the push fail with it. `words` are lines that the client prints.
    """
    report = pktline.encode(b"unpack ok\n")
    for command in request.commands:
        cause = causes.get(command.ref, "refused together with the others")
        report += pktline.encode(b"ng " + command.ref + b" " + cause.encode() + b"\n")
    report += pktline.FLUSH
    if not request.has_side_band:
        return report if request.wants_report else b""
    return b"".join([*_words(words), *(pktline.encode_band(_DATA, report) if request.wants_report else ()), pktline.FLUSH])


class ReportFilter:
    """Watches the answer of receive-pack on its way to the client: passes progress on, holds the report back until the end and explains it.

    A client without side-band-64k gets the answer unchanged.
    """

    def __init__(self, request: PushRequest) -> None:
        self._passive = not request.has_side_band
        self._reader = LineReader()
        self._said = bytearray()
        self._report = bytearray()

    @property
    def said(self) -> list[str]:
        """The lines that the client was told so far."""
        return self._said.decode("utf-8", "replace").splitlines()

    def feed(self, data: bytes) -> bytes:
        """Take a portion of the answer and return what may go to the client now.

        Raises:
            BadLine: receive-pack wrote no pkt-lines.
        """
        if self._passive:
            return data
        self._reader.feed(data)
        passed = bytearray()
        for line in self._reader.lines():
            if line is None:
                continue
            if line[:1] == b"\x01":
                self._report += line[1:]
                continue
            if line[:1] == b"\x02" and len(self._said) < _MAX_SAID_BYTES:
                self._said += line[1:]
            passed += pktline.encode(line)
        return bytes(passed)

    def report(self) -> dict[str, str]:
        """Return what happened: `unpack` and each ref, mapped to `ok` or the cause of the failure. Empty while nothing was reported."""
        reader = LineReader()
        reader.feed(bytes(self._report))
        fates: dict[str, str] = {}
        for line in reader.lines():
            word, _, rest = (line or b"").decode("utf-8", "replace").rstrip("\n").partition(" ")
            if word == "unpack":
                fates["unpack"] = rest
            elif word in ("ok", "ng"):
                ref, _, cause = rest.partition(" ")
                fates[ref] = "ok" if word == "ok" else cause
        return fates

    def finish(self, *, words: Sequence[str] = (), unpack: str = "") -> bytes:
        """Return the end of the answer: lines for the client to print, then the report, its `unpack` failure replaced by the cause `unpack` if given."""
        if self._passive:
            return b""
        report = self._with_unpack(unpack) if unpack else bytes(self._report)
        return b"".join([*_words(words), *pktline.encode_band(_DATA, report), pktline.FLUSH])

    def _with_unpack(self, cause: str) -> bytes:
        reader = LineReader()
        reader.feed(bytes(self._report))
        changed = bytearray()
        for line in reader.lines():
            if line is None:
                changed += pktline.FLUSH
            elif line.startswith(b"unpack ") and not line.startswith(b"unpack ok"):
                changed += pktline.encode(b"unpack " + cause.encode() + b"\n")
            else:
                changed += pktline.encode(line)
        return bytes(changed)


def _words(words: Sequence[str]) -> Iterator[bytes]:
    for line in words:
        yield from pktline.encode_band(_PROGRESS, line.encode() + b"\n")
