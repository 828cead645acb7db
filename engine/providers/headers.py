"""What a provider's `headers` may hold, whoever writes them: a bundle's Provider file or a job's Provider.

Owns which headers are the connection's own, and which look like a credential. A provider's headers stand in the plan as they are written, so a
credential has no place among them. Pure. Must not know files, objects or requests.
"""

import re
from typing import Final

_OF_CONNECTION: Final = frozenset(
    ("host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding", "expect", "te", "upgrade")
)
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CREDENTIAL_NAME: Final = re.compile(
    r"(?:.*[-_])?(?:(?:api|access|subscription|functions|secret|private|auth)[-_]?key|auth|authorization|token|jwt|secret|password|passwd|credentials?|cookie|session)|(?:x-|openai-)?key",
    re.IGNORECASE,
)
_CREDENTIAL_VALUE: Final = re.compile(r"\s*(?:bearer|basic|token)\s+\S.*", re.IGNORECASE)


def header_fault(name: str, value: str) -> str:
    """Return why a provider cannot send a header, "" when it can. The value is in no answer."""
    if not _TOKEN.fullmatch(name):
        return "it is not the name of a header"
    if name.lower() in _OF_CONNECTION:
        return "it is not a provider's to set"
    return "" if value.isprintable() else "its value holds line breaks or other control characters"


def is_credential(name: str, value: str) -> bool:
    """Say whether a header looks like one that proves who asks: by its name (`authorization`, `x-api-key`, `cookie`), or by the scheme of its value."""
    return bool(_CREDENTIAL_NAME.fullmatch(name) or _CREDENTIAL_VALUE.fullmatch(value))
