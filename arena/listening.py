"""The sockets that our servers listen on."""

import socket

from arena.errors import UsageError

BACKLOG = 512


def listen(host: str, port: int, *, hint: str) -> socket.socket:
    """Return a socket that listens; host "" is every interface, port 0 any free one. `hint` says what to do where the address is taken.

    Raises:
        UsageError: the address cannot be listened on.
    """
    everywhere = not host and socket.has_dualstack_ipv6()
    listener = socket.socket(socket.AF_INET6 if ":" in host or everywhere else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if everywhere:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UsageError(f"cannot listen on {host or 'any address'}:{port}: {error.strerror or error}", hint=hint) from error
    listener.listen(BACKLOG)
    listener.setblocking(False)  # noqa: FBT003 - the standard library's own signature
    return listener
