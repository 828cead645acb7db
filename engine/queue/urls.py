"""The addresses of a queue server: with a run's credentials, and with none.

Owns where in a URL a credential may stand. Must not know who may have one.
"""

from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from engine.queue.keys import run_of_user

_CREDENTIALS = frozenset({"username", "password"})


def without_credentials(url: str) -> str:
    """Return the address alone: neither user nor password, before the host or among the parameters (which unix:// URLs may have there)."""
    return _put_together(url, "")


def with_credentials(url: str, user: str, password: str) -> str:
    """Return the address with these credentials in place of any that it has."""
    return _put_together(url, f"{quote(user, safe='')}:{quote(password, safe='')}@")


def is_of_run(url: str, *, address: str, installation: str) -> bool:
    """Say whether a URL leads to the server at `address`, with credentials of a run of this installation; both change when a backup is restored."""
    user = unquote(urlsplit(url).username or "")
    return without_credentials(url) == without_credentials(address) and bool(run_of_user(installation, user)) and bool(password_of(url))


def password_of(url: str) -> str:
    """Return the password before the host, "" when there is none."""
    return unquote(urlsplit(url).password or "")


def database_of(url: str) -> int:
    """Return the number of the database that a client of this URL selects, as redis-py reads it: a parameter wins over the path."""
    parts = urlsplit(url)
    text = dict(parse_qsl(parts.query)).get("db") or ("" if parts.scheme == "unix" else parts.path.strip("/"))
    return int(text) if text.isdigit() else 0


def _put_together(url: str, credentials: str) -> str:
    # Not urlunsplit: it leaves out the empty host of unix:///path, and redis-py wants it.
    parts = urlsplit(url)
    query = urlencode([(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in _CREDENTIALS])
    return f"{parts.scheme}://{credentials}{parts.netloc.rpartition('@')[2]}{parts.path}{'?' if query else ''}{query}"
