"""Signatures over bytes, made and compared as the git hosts do it.

Every comparison takes the same time whatever the difference is. Must not know which header holds what.
"""

import hmac

from starlette.datastructures import Headers

SIGNATURE_CHALLENGE = "Signature"
SHA256 = "sha256"
SHA256_PREFIX = "sha256="


def only(headers: Headers, name: str) -> str:
    """Return the value of a header; "" when it is absent, or there more than once: nobody can say which one counts."""
    values = headers.getlist(name)
    return values[0].strip() if len(values) == 1 else ""


def hex_signature(message: bytes, secret: bytes, algorithm: str = SHA256) -> str:
    """Return the HMAC of a message in hexadecimal."""
    return hmac.digest(secret, message, algorithm).hex()


def is_hex_signature(offered: str, message: bytes, secret: bytes, algorithm: str = SHA256) -> bool:
    """Say whether `offered` is the HMAC of the message, in hexadecimal of either case."""
    return is_same(offered.lower(), hex_signature(message, secret, algorithm).encode())


def is_prefixed_signature(offered: str, message: bytes, secret: bytes) -> bool:
    """Say whether `offered` is `sha256=` and the HMAC of the message."""
    return offered.startswith(SHA256_PREFIX) and is_hex_signature(offered.removeprefix(SHA256_PREFIX), message, secret)


def is_same(offered: str, expected: bytes) -> bool:
    """Compare the text of a header, as HTTP libraries decode it, with the bytes that it should be."""
    return hmac.compare_digest(offered.encode("latin-1", "replace"), expected)
