"""Headers as git and API clients send them."""

import base64

TOKEN = "0123456789abcdef" * 3
SOURCE = "192.0.2.7"


def basic(password: str, user: str = "arena") -> dict[str, str]:
    """Return basic authentication with a password."""
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def bearer(token: str) -> dict[str, str]:
    """Return a bearer token."""
    return {"authorization": f"Bearer {token}"}
