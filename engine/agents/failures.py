"""What an agent's refusals mean to the engine: words of its error frames, codes with which it closes, a handshake that fails.

Owns that table. None of it is ever a score; where another attempt may end better, the item is held again from its beginning, because the agent that
comes back remembers nothing. Must not know sockets.
"""

import re
from collections.abc import Mapping
from typing import Final

from engine.agents.frames import Failed
from engine.errors import ProviderError
from engine.providers.refusals import shortened

_CLOSED: Final[Mapping[int, tuple[str, str, bool]]] = {
    1000: ("unavailable", "it ended the session", True),
    1001: ("unavailable", "it is going away", True),
    1002: ("protocol", "it found a protocol error", False),
    1003: ("invalid_request", "it does not take this kind of data", False),
    1006: ("unavailable", "the connection was lost", True),
    1007: ("protocol", "it could not read the text", False),
    1008: ("authentication", "its policy refuses this client", False),
    1009: ("invalid_request", "the message is too big for it", False),
    1011: ("unavailable", "it failed", True),
    1012: ("unavailable", "it restarts", True),
    1013: ("unavailable", "it is overloaded", True),
    4400: ("invalid_request", "it refuses the request", False),
    4401: ("authentication", "it refuses the token", False),
    4403: ("authentication", "it refuses this client", False),
    4404: ("invalid_request", "it does not know the agent", False),
    4408: ("timeout", "it waited too long", True),
    4429: ("rate_limit", "too many requests", True),
}
_LOST: Final = _CLOSED[1006]

_CODES: Final = (
    (re.compile(r"rate_?limit|\brate_|429|too_many|throttl|overload|resource_exhausted"), "rate_limit", True),
    (re.compile(r"quota|budget|billing|credit"), "rate_limit", False),
    (
        re.compile(r"auth|forbidden|permission|denied|\b40[13]\b|credential|token_(?:expired|invalid|missing|revoked)|(?:invalid|bad|missing)_token"),
        "authentication",
        False,
    ),
    (re.compile(r"timed?_?out|deadline|\b(?:408|504)\b"), "timeout", True),
    (re.compile(r"session"), "unavailable", True),
    (re.compile(r"invalid|bad_|malformed|not_found|unsupported|too_(?:large|big|long)|unknown|exceeded|\b4\d\d\b"), "invalid_request", False),
)
"""Words in the code of an error frame, the first that fits; any other is an agent that failed, and may do better next time."""


class AgentFailures:
    """Makes errors that name the agent; `secret`, the value of `variable`, is never shown."""

    def __init__(self, name: str, secret: str = "", variable: str = "") -> None:
        self._name = name
        self._secret = secret
        self._variable = variable

    def of(self, kind: str, cause: str, *, transient: bool, retry_after_s: float | None = None) -> ProviderError:
        """Return an error of `kind`, whose cause may be as long as the agent likes."""
        return self._error(kind, shortened(self._hidden(cause)), transient=transient, retry_after_s=retry_after_s)

    def of_refusal(self, kind: str, cause: str, *, transient: bool, retry_after_s: float | None = None) -> ProviderError:
        """Return what it means that the agent lets nobody in; `cause` has no more of its words than is kept. Where it is for the token, the message names the variable of that."""
        if kind == "authentication" and self._variable:
            cause += f"; its token is the workers' variable {self._variable}{'' if self._secret else ', which is not set'}"
        return self._error(kind, self._hidden(cause), transient=transient, retry_after_s=retry_after_s)

    def of_frame(self, frame: Failed) -> ProviderError:
        """Return what an error frame means."""
        code = frame.code.lower().replace("-", "_").replace(" ", "_")
        kind, transient = next(((kind, transient) for words, kind, transient in _CODES if words.search(code)), ("unavailable", True))
        return self.of(kind, f"it answered error {frame.code or 'without a code'}: {frame.message or 'no words'}", transient=transient)

    def of_close(self, code: int | None, reason: str, when: str) -> ProviderError:
        """Return what the end of a connection means; `code` is None where it just ended, `when` says in the middle of what."""
        known = _CLOSED.get(code or 1006)
        kind, cause, transient = known or _LOST
        named = f" (code {code})" if code not in (None, 1006) else ""
        return self.of_refusal(kind, f"{cause} {when}{named}{f': {reason}' if reason else ''}", transient=transient)

    def of_fault(self, cause: str) -> ProviderError:
        """Return what a breach of the protocol means: the agent will do it again."""
        return self.of("protocol", f"it does not keep to the protocol: {cause}", transient=False)

    def of_silence(self, seconds: float, awaited: str) -> ProviderError:
        """Return what it means that nothing came."""
        return self.of("timeout", f"no {awaited} came within {seconds:g} s", transient=True)

    def _hidden(self, cause: str) -> str:
        return cause.replace(self._secret, "***") if self._secret else cause

    def _error(self, kind: str, said: str, *, transient: bool, retry_after_s: float | None) -> ProviderError:
        return ProviderError(f"cannot ask agent '{self._name}': {said}", kind=kind, transient=transient, retry_after_s=retry_after_s)
