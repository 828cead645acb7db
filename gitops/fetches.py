"""Fetching: `git upload-pack` behind one request, and the advertisement of refs for both services.

Owns the settings of upload-pack and the pumping of its pipes. Must not know routes, users or slots.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import structlog

from gitops import pktline
from gitops.errors import GitFailed
from gitops.exchange import Exchange, together
from gitops.processes import STREAM_LIMIT_BYTES, GitCommand, GitProcess, git_process, run_git
from gitops.request_body import BodyMalformed, ClientGone, RequestBody

ADVERTISEMENT_LIMIT_BYTES = 64 << 20
ADVERTISEMENT_TIMEOUT_S = 30.0

FETCH_SETTINGS = {
    "uploadpack.allowFilter": "true",
    # Protocol 2 serves any object that is asked for by its id; the older ones shall not differ.
    "uploadpack.allowAnySHA1InWant": "true",
    "transfer.hideRefs": "refs/arena",
    "transfer.advertiseSID": "false",
}

log = structlog.get_logger(__name__)


async def advertise(repository: Path, service: str, settings: dict[str, str], protocol: str) -> bytes:
    """Return what `info/refs?service=` answers, framed as the protocol version wants it.

    Raises:
        GitFailed: the repository cannot be read.
    """
    command = GitCommand(
        [service.removeprefix("git-"), "--stateless-rpc", "--http-backend-info-refs", str(repository)],
        repository=repository,
        settings=settings,
        environment=protocol_environment(protocol),
    )
    refs = await run_git(command, timeout_s=ADVERTISEMENT_TIMEOUT_S, output_limit_bytes=ADVERTISEMENT_LIMIT_BYTES)
    if service == "git-upload-pack" and "version=2" in protocol.split(":"):
        return refs
    return pktline.encode(f"# service={service}\n".encode()) + pktline.FLUSH + refs


async def upload_pack(exchange: Exchange, body: RequestBody, repository: Path, protocol: str) -> None:
    """Answer one request of a fetch. The process dies with the client's connection.

    Raises:
        GitFailed: git said nothing that a client understands.
        ClientGone, ClientStalled, BodyTooLarge, BodyMalformed, BodyStalled: as they say.
    """
    async with contextlib.aclosing(body.portions()) as portions:
        # The first event is taken before anything else: it is what makes the server answer `Expect: 100-continue`.
        first = await anext(portions, b"")
        command = GitCommand(
            ["upload-pack", "--stateless-rpc", "--strict", str(repository)],
            repository=repository,
            settings=FETCH_SETTINGS,
            environment=protocol_environment(protocol),
        )
        async with git_process(command, grace_s=0.0) as process:
            await together(_pump(exchange, process), _feed(process, body, first, portions))
            status = await process.wait()
    if status != 0:
        log.warning("fetch failed", repository=repository.name, status=status, stderr=process.errors)
        if not exchange.started and "protocol error" in process.errors:
            raise BodyMalformed("the request is not what git understands")
        if not exchange.started:
            raise GitFailed("cannot answer the fetch: git ended without an answer", stderr=process.errors, status=status)
    await exchange.finish()


def protocol_environment(protocol: str) -> dict[str, str]:
    """Return the environment that tells git which protocol the client speaks."""
    return {"GIT_PROTOCOL": protocol} if protocol else {}


async def _feed(process: GitProcess, body: RequestBody, first: bytes, portions: AsyncIterator[bytes]) -> None:
    await process.write(first)
    async for portion in portions:
        await process.write(portion)
    process.close_stdin()
    await body.wait_for_disconnect()
    raise ClientGone


async def _pump(exchange: Exchange, process: GitProcess) -> None:
    while chunk := await process.stdout.read(STREAM_LIMIT_BYTES):
        await exchange.write(chunk)
