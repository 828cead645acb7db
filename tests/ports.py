"""Ports of loopback for programs that must be told theirs, some of them again and again. Whoever can should listen on port 0 instead."""

import contextlib
import random
import socket
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

_ALL: Final = range(10_000, 1 << 16)
_ENOUGH: Final = 1000


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses at the moment, all different.

    They are not among those that the kernel gives to connections and to whoever asks for any: one of these may be another test's before it is listened
    on, or while its program is down.
    """
    return list(islice(_free_ports(), count))


def _free_ports() -> Iterator[int]:
    lowest_given, highest_given = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split())
    ours = [port for port in _ALL if not lowest_given <= port <= highest_given]
    ports = ours if len(ours) > _ENOUGH else _ALL  # a machine may give out nearly all there are
    for port in random.Random().sample(ports, _ENOUGH):  # noqa: S311 - not the seed of a test: its neighbours have the same
        with contextlib.suppress(OSError):
            socket.create_server(("127.0.0.1", port)).close()
            yield port
