"""A process that fetches once and may die of it: `python -m tests.mirror.fetch_process ROOT URL CA_FILE [CRASH_POINT]`, from the repository's root."""

import asyncio
import sys
from ipaddress import IPv4Network
from pathlib import Path

from foundation.addresses import AddressPolicy
from foundation.clock import SystemClock
from foundation.crash import arm
from gitops.content import ContentVolume, ProjectKey
from gitops.mirrors import Mirrors
from gitops.remote import Credentials, Remote
from gitops.repositories import Repositories

PROJECT = ProjectKey("team", "prompts")


async def fetch(root: str, remote: Remote) -> None:
    """Fetch once."""
    clock = SystemClock()
    mirrors = Mirrors(Repositories(ContentVolume(Path(root)), clock), clock, addresses=AddressPolicy((IPv4Network("127.0.0.0/8"),)))
    await mirrors.fetch(PROJECT, remote)
    mirrors.close()


def main(root: str, url: str, authority: str, crash_point: str = "") -> None:
    """Fetch once, dying at the crash point."""
    arm(crash_point)
    asyncio.run(fetch(root, Remote(url, Credentials(ca_certificates=Path(authority).read_text(encoding="ascii")))))


if __name__ == "__main__":
    main(*sys.argv[1:])
