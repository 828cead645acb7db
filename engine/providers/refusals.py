"""What an HTTP status says of a model's endpoint: the kind of failure, and whether asking again may help.

Owns that table, which all wires share. Must not know any vendor's bodies: a wire finds the words and the code in these.
"""

import re
from typing import Final

from engine.errors import ProviderError

MAX_WORDS: Final = 600
"""How much of a vendor's words is kept."""

_KINDS: Final = {
    400: ("invalid_request", False),
    401: ("authentication", False),
    402: ("rate_limit", False),
    403: ("authentication", False),
    404: ("invalid_request", False),
    408: ("timeout", True),
    409: ("unavailable", True),
    413: ("invalid_request", False),
    422: ("invalid_request", False),
    425: ("unavailable", True),
    429: ("rate_limit", True),
    499: ("unavailable", True),
    501: ("invalid_request", False),
    504: ("timeout", True),
    505: ("protocol", False),
}
_BLANK: Final = re.compile(r"[\x00-\x20\x7f]+")
_EXHAUSTED: Final = re.compile(
    r"insufficient_quota|billing|quota_exceeded|credit balance|insufficient credits|spend limit|exceeded your current quota", re.IGNORECASE
)
"""Codes and words of an account that has nothing left: waiting seconds or minutes changes nothing."""

LONGEST_WISH_S: Final = 600.0
"""How long a provider may ask to be left alone and still be waited for, by the worker where not by the request."""


def refused(status: int, words: str, *, code: str = "") -> ProviderError:
    """Return what `status` means, with the vendor's `words` and its `code` (its stable word for the cause, "" when it has none)."""
    kind, transient = _KINDS.get(status, _of_class(status))
    if kind == "rate_limit" and _EXHAUSTED.search(f"{code} {words}"):
        transient = False
    said = shortened(words)
    named = f" ({code})" if code and code not in said else ""
    what = "a redirect, which is not followed" if 300 <= status < 400 else said or "no words"  # noqa: PLR2004 - as HTTP has it
    return ProviderError(f"the provider answered {status}{named}: {what}", kind=kind, transient=transient)


def wishing(error: ProviderError, wish_s: float | None) -> ProviderError:
    """Return a refusal that asks to be left alone for `wish_s` seconds (None: it does not ask). One that does not pass has no wish that anybody waits for.

    A longer time than `LONGEST_WISH_S` is an exhausted quota, in whatever words: each further attempt would end as this one did, hours later.
    """
    if error.transient and wish_s is not None and wish_s > LONGEST_WISH_S:
        asked = f"it asks to be left alone for {wish_s / 60:.0f} min, and a run waits {LONGEST_WISH_S / 60:.0f} min at most"
        return ProviderError(f"{error.message}; {asked}", kind=error.kind, transient=False)
    error.retry_after_s = wish_s if error.transient else None
    return error


def shortened(words: str) -> str:
    """Return a vendor's words on one line, and not too many of them."""
    line = _BLANK.sub(" ", words).strip()
    return line if len(line) <= MAX_WORDS else line[:MAX_WORDS] + "…"


def _of_class(status: int) -> tuple[str, bool]:
    if status >= 500:  # noqa: PLR2004 - as HTTP has it
        return "unavailable", True
    return ("invalid_request", False) if status >= 400 else ("protocol", False)  # noqa: PLR2004 - as HTTP has it
