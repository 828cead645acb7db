"""Ports of loopback for programs that must be told theirs, some of them again and again. Whoever can should listen on port 0 instead."""

import contextlib
import random
import socket
from pathlib import Path
from typing import Final

_LOWEST: Final = 10_000


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses at the moment, all different.

    They are not among those that the kernel gives to connections and to whoever asks for any: one of these may be another test's before it is listened
    on, or while its program is down.
    """
    lowest_given, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()
    found: list[int] = []
    for port in random.Random().sample(range(_LOWEST, int(lowest_given)), 1000):  # noqa: S311 - not the seed of a test: its neighbours have the same
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
        if len(found) == count:
            break
    return found
