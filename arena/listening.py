"""The sockets that our servers listen on."""

import socket

from arena.errors import UsageError

BACKLOG = 512


def listen(host: str, port: int, *, hint: str) -> socket.socket:
    """Return a socket that listens; port 0 is any free one. `hint` says what to do where the address is taken.

    Raises:
        UsageError: the address cannot be listened on.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}", hint=hint) from error
    listener.listen(BACKLOG)
    listener.setblocking(False)  # noqa: FBT003 - the standard library's own signature
    return listener
