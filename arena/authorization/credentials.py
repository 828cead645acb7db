"""What a request's headers show of its sender.

Pure. The one place that knows the Authorization header (RFC 9110, 7617, 6750).
"""

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from typing import Final

from arena.authorization.errors import NotAuthenticated
from arena.authorization.port import Credential, Scheme

MAX_HEADER_BYTES: Final = 16 * 1024
"""A service account's token has one or two KiB; one of a company's identity provider, with its groups, up to ten."""

EITHER: Final[tuple[Scheme, ...]] = ("basic", "bearer")
BEARER: Final[tuple[Scheme, ...]] = ("bearer",)
"""Where a browser could be made to come: it sends a password that it was once given along with whatever any page makes it ask for."""

_TOKEN = re.compile(r"[\x21-\x7e]+")


def is_shown(headers: Mapping[str, str]) -> bool:
    """Say whether a request shows any credential. Git asks without one first, and that is no failure."""
    return "authorization" in headers


def read_credential(headers: Mapping[str, str], source: str, *, schemes: Collection[Scheme] = EITHER) -> Credential:
    """Return the credential that the headers show in one of the schemes: a bearer token, or a token as password of any user.

    Raises:
        NotAuthenticated: there is none; there are several, of which a proxy may have read another than we would; or it is none that can be read.
    """
    shown = [value for name, value in headers.items() if name == "authorization"]
    if not shown:
        raise NotAuthenticated("cannot log in: the request carries no token")
    if len(shown) > 1:
        raise NotAuthenticated("cannot log in: the request carries several Authorization headers")
    if len(shown[0]) > MAX_HEADER_BYTES:
        raise NotAuthenticated(f"cannot log in: the Authorization header has more than {MAX_HEADER_BYTES} bytes")
    word, _, value = shown[0].strip().partition(" ")
    scheme = next((scheme for scheme in schemes if scheme == word.lower()), None)
    if scheme is None:
        raise NotAuthenticated(f"cannot log in: the token must come as {' or '.join(schemes)} authorization")
    token = value.strip() if scheme == "bearer" else _password(value.strip())
    if not _TOKEN.fullmatch(token):
        raise NotAuthenticated(f"cannot log in: the {scheme} authorization holds no token")
    return Credential(token, scheme, source)


def _password(value: str) -> str:
    """Return the password of a Basic value, "" when it is none."""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):  # UnicodeDecodeError is a ValueError
        return ""
