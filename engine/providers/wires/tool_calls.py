"""Tool calls as wires find them: arguments as text, in pieces, with ids that may be missing.

Owns how a call's arguments are read. Must not know any vendor's objects.
"""

import json
import secrets
from dataclasses import dataclass, field
from typing import Any

from engine.errors import ProviderError
from engine.providers.messages import ToolCall


def tool_call(ident: str, name: str, arguments: Any) -> ToolCall:
    """Return a call; `arguments` is an object, or the text of one ("" is the empty object). Without an id of the vendor's, it gets one.

    Raises:
        ProviderError: it has no name (`protocol`).
    """
    if not name:
        raise ProviderError("cannot read the reply: a tool call has no name", kind="protocol", transient=True)
    ident = ident or f"call_{secrets.token_hex(8)}"
    if isinstance(arguments, dict):
        return ToolCall(ident, name, arguments)
    text = arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
    try:
        read = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        read = None
    return ToolCall(ident, name, read) if isinstance(read, dict) else ToolCall(ident, name, None, text)


@dataclass(slots=True)
class Pieces:
    """A call that comes in pieces. `index` is None where the vendor gives none."""

    index: int | None
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def is_whole(self) -> bool:
        """Say whether its arguments are an object already."""
        try:
            return isinstance(json.loads("".join(self.arguments)), dict)
        except (ValueError, RecursionError):
            return False


class ToolCallPieces:
    """Puts the calls of one stream together, in the order in which they began.

    A piece belongs to the call of its id, else of its index, else to the last one. A new id, or a new name, begins a call even where it shares an
    index with another; so does a name that comes again once the arguments so far are whole.
    """

    def __init__(self) -> None:
        self._calls: list[Pieces] = []

    def add(self, *, index: int | None, ident: str, name: str, arguments: str) -> None:
        """Take a piece; what it does not have is "" or None."""
        call = self._find(index, ident)
        if call is None or _begins_anew(call, ident, name):
            call = Pieces(index)
            self._calls.append(call)
        call.id = call.id or ident
        call.name = call.name or name
        if arguments:
            call.arguments.append(arguments)

    def calls(self) -> tuple[ToolCall, ...]:
        """Return the calls.

        Raises:
            ProviderError: one has no name (`protocol`).
        """
        return tuple(tool_call(call.id, call.name, "".join(call.arguments)) for call in self._calls)

    def _find(self, index: int | None, ident: str) -> Pieces | None:
        found = (call for call in reversed(self._calls) if (ident and call.id == ident) or (not ident and index is not None and call.index == index))
        known = next(found, None)
        if known is not None:
            return known
        of_index = next((call for call in reversed(self._calls) if index is not None and call.index == index), None)
        if of_index is not None or index is not None:
            return of_index
        return self._calls[-1] if self._calls else None


def _begins_anew(call: Pieces, ident: str, name: str) -> bool:
    if ident and call.id:
        return ident != call.id
    if not name or not call.name:
        return False
    return name != call.name or call.is_whole()
