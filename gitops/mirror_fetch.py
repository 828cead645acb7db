"""`git fetch` from a remote that was listed and checked, in a fence.

Owns the settings, limits and end of that process. It goes to the address that the listing was pinned to, follows no redirect, knows one credential for
one host, and writes under our locks. Must not know which refs are wanted, nor what a leftover is.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

import anyio.to_thread

from foundation.crash import crash_point
from gitops.errors import GitFailed, RemoteCause, RemoteFailed
from gitops.mirror_limits import MirrorLimits
from gitops.processes import STREAM_LIMIT_BYTES, GitCommand, GitProcess, git_process
from gitops.push_policy import HARMLESS_FAULTS
from gitops.remote import Remote
from gitops.remote_connection import Origin
from gitops.remote_failures import failed, fetch_failure, too_full, too_large
from gitops.remote_listing import Listing

PRUNED = (b"+refs/heads/*:refs/heads/*", b"+refs/tags/*:refs/tags/*")
STDERR_BYTES = 8 << 20
_FORCED = re.compile(r"^ \+ ([0-9a-f]{40,64})\.\.\.([0-9a-f]{40,64}) ", re.MULTILINE)
_OPTIONS = ("--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--no-auto-maintenance", "--no-progress", "--stdin")


@dataclass(frozen=True, slots=True)
class Fetched:
    """What git said: (old, new) of every ref that it replaced by something that does not descend from it."""

    forced: frozenset[tuple[str, str]]


async def fetch_refs(
    repository: Path, remote: Remote, listing: Listing, refspecs: Sequence[bytes], limits: MirrorLimits, *, inherited: tuple[int, ...]
) -> Fetched:
    """Fetch `refspecs` into the repository; with prune, if they are the mirror's own. `inherited` are descriptors of locks that git shall hold.

    A failure leaves refs that name whole commits, and perhaps temporary files.

    Raises:
        RemoteFailed: git could not fetch.
        StorageFailed: the volume refused.
    """
    room = await anyio.to_thread.run_sync(_room, repository, limits)
    if room <= 0:
        raise too_full(remote, limits.repository_bytes)
    prune = ["--prune"] if refspecs[: len(PRUNED)] == list(PRUNED) else []
    with _file_of(remote.credentials.ca_certificates) as authority:
        command = GitCommand(
            ["fetch", *prune, *_OPTIONS, "--end-of-options", listing.base_url],
            repository=repository,
            settings=_settings(remote, listing, limits, authority),
            environment={"GIT_ALLOW_PROTOCOL": "https", "GIT_ASKPASS": "", "SSH_ASKPASS": ""},
            memory_bytes=limits.memory_bytes,
            file_bytes=room,
            open_files=limits.open_files,
            stderr_bytes=STDERR_BYTES,
            inherited=inherited if authority is None else (*inherited, authority),
        )
        try:
            async with asyncio.timeout(limits.fetch_s), git_process(command, grace_s=0.0) as process:
                status = await _feed(process, refspecs)
                said = process.errors
        except TimeoutError as error:
            words = f"the fetch takes longer than {limits.fetch_s:g} s"
            raise failed(remote, RemoteCause.TIMED_OUT, words, hint="mirror a smaller repository, or let an operator raise the limit") from error
    if status != 0:
        failure = _cut_off(repository, remote, limits, room) or fetch_failure(remote, said)
        raise failure from GitFailed("cannot run git 'fetch'", stderr=remote.credentials.redact(said[-4096:]), status=status)
    return Fetched(frozenset((old, new) for old, new in _FORCED.findall(said)))


def _room(repository: Path, limits: MirrorLimits) -> int:
    """Return how many bytes the next pack may have: the limit of a pack, or what is left for the mirror if that is less."""
    held = sum(path.stat().st_size for path in (repository / "objects" / "pack").glob("pack-*"))
    return min(limits.pack_bytes, limits.repository_bytes - held)


def _cut_off(repository: Path, remote: Remote, limits: MirrorLimits, room: int) -> RemoteFailed | None:
    """Say which limit stopped git; None when none did. index-pack dies at its limit without a word, so the file that it leaves has to say why."""
    with contextlib.suppress(FileNotFoundError):
        if any(path.stat().st_size >= room for path in repository.glob("objects/pack/tmp_pack_*")):
            return too_large(remote) if room == limits.pack_bytes else too_full(remote, limits.repository_bytes)
    return None


async def _feed(process: GitProcess, refspecs: Sequence[bytes]) -> int:
    await process.write(b"".join(refspec + b"\n" for refspec in refspecs))
    process.close_stdin()
    crash_point("mirror.started")
    while await process.stdout.read(STREAM_LIMIT_BYTES):
        pass
    return await process.wait()


def _settings(remote: Remote, listing: Listing, limits: MirrorLimits, authority: int | None) -> dict[str, str]:
    origin = Origin.of(remote)
    settings = {
        "protocol.https.allow": "always",
        "http.followRedirects": "false",
        "http.proxy": "",
        "http.sslVerify": "true",
        "http.lowSpeedLimit": str(limits.slowest_bytes_s),
        "http.lowSpeedTime": str(limits.stall_s),
        "fetch.fsckObjects": "true",
        **{f"fetch.fsck.{fault}": "warn" for fault in HARMLESS_FAULTS},
        "fetch.unpackLimit": "1",
        "fetch.output": "full",
        "fetch.showForcedUpdates": "true",
        "fetch.writeCommitGraph": "false",
        "transfer.bundleURI": "false",
        "core.abbrev": "no",
        "core.hooksPath": os.devnull,
        "core.packedRefsTimeout": "5000",
        "core.filesRefLockTimeout": "5000",
    }
    if origin.host != str(listing.address):
        address = f"[{listing.address}]" if isinstance(listing.address, IPv6Address) else str(listing.address)
        settings["http.curloptResolve"] = f"{origin.host}:{origin.port}:{address}"
    authorization = remote.credentials.authorization
    if authorization is not None:
        settings[f"http.https://{origin.authority}/.extraHeader"] = f"Authorization: {authorization}"
    if authority is not None:
        settings["http.sslCAInfo"] = f"/proc/self/fd/{authority}"
    return settings


@contextmanager
def _file_of(certificates: str) -> Iterator[int | None]:
    """Yield a descriptor of a file without a name: a death leaves nothing, and git's children read it by its number."""
    if not certificates:
        yield None
        return
    descriptor = os.memfd_create("ca.crt")
    try:
        with contextlib.closing(os.fdopen(os.dup(descriptor), "wb")) as file:
            file.write(certificates.encode())
        yield descriptor
    finally:
        os.close(descriptor)
