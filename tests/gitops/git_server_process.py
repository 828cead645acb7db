"""A git server in a process of its own, to be killed and measured: `python git_server_process.py ROOT [CRASH_POINT]`.

Prints its port, then one line `changed` for each change that it was told of. Runs on uvloop, as a server does.
"""

import asyncio
import logging
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import structlog
import uvicorn

from foundation.clock import SystemClock
from foundation.crash import arm
from gitops.content import ContentVolume, ProjectKey
from gitops.repositories import Repositories
from gitops.smart_http import Access, SmartHTTP


async def _authorize(headers: Mapping[str, str], namespace: str, project: str, *, write: bool, source: str) -> Access:
    del headers, write, source
    return Access(ProjectKey(namespace, project))


async def _changed(project: ProjectKey) -> None:
    print("changed", project, flush=True)  # noqa: T201 - the test reads it


def main(root: str, crash_point: str = "") -> None:
    """Serve until killed."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    arm(crash_point)
    repositories = Repositories(ContentVolume(Path(root)), SystemClock())
    asyncio.run(repositories.create(ProjectKey("team", "support")))
    application = SmartHTTP(repositories, authorize=_authorize, on_change=_changed)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        print(listener.getsockname()[1], flush=True)  # noqa: T201 - the test reads it
        server = uvicorn.Server(uvicorn.Config(application, lifespan="off", log_level="error", loop="uvloop", ws="none"))
        server.run(sockets=[listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
