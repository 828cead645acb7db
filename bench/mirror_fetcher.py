"""A process that fetches a mirror at each line it reads, and says what came of it: `python -m bench.mirror_fetcher ROOT URL CA_FILE`."""

import asyncio
import logging
import sys
from collections.abc import Sequence
from ipaddress import IPv4Network
from pathlib import Path

import structlog

from foundation.addresses import AddressPolicy
from foundation.clock import SystemClock
from foundation.errors import ArenaError
from gitops.content import ContentVolume, ProjectKey
from gitops.mirrors import Mirrors
from gitops.remote import Credentials, Remote
from gitops.repositories import Repositories

PROJECT = ProjectKey("bench", "mirror")
LOOPBACK = AddressPolicy((IPv4Network("127.0.0.0/8"),))


def mirrors_of(root: Path) -> Mirrors:
    """Return the mirrors of a content volume."""
    clock = SystemClock()
    return Mirrors(Repositories(ContentVolume(root), clock), clock, addresses=LOOPBACK)


async def answer(root: Path, remote: Remote) -> None:
    """Fetch at each line until the input ends."""
    mirrors = mirrors_of(root)
    loop = asyncio.get_running_loop()
    print("ready", flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        try:
            state = await mirrors.fetch(PROJECT, remote)
        except ArenaError as error:
            print(f"failed {error.message}", flush=True)
        else:
            print(f"fetched {len(state.changes)}", flush=True)
    mirrors.close()


def main(arguments: Sequence[str]) -> None:
    """Fetch as asked."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    root, url, authority = arguments
    asyncio.run(answer(Path(root), Remote(url, Credentials(ca_certificates=Path(authority).read_text(encoding="ascii")))))


if __name__ == "__main__":
    main(sys.argv[1:])
