"""Pushing: `git receive-pack` behind one request, with the policy before, in and after it.

Owns the life of a push from its first byte to the notice of a change. A push whose body has arrived goes on when its client leaves; one whose body
breaks off leaves nothing. Must not know routes, users or slots.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
import structlog

from foundation.crash import crash_point
from gitops.content import ProjectKey
from gitops.errors import GitFailed, PushRefused, RepositoryBusy, StorageFailed, UnknownProject
from gitops.exchange import Exchange, together
from gitops.fetches import protocol_environment
from gitops.locks import RepositoryLock
from gitops.pktline import BadLine
from gitops.processes import STREAM_LIMIT_BYTES, GitCommand, GitProcess, git_process
from gitops.push_check import Quarantine, check_push
from gitops.push_gate import PushGate, one_line
from gitops.push_policy import Refusal, explain_report, met_ref_lock, receive_settings, refuse_commands, refuse_pack_size
from gitops.receive_protocol import PushRequest, PushRequestReader, ReportFilter, refusal
from gitops.repositories import Repositories
from gitops.request_body import BodyMalformed, RequestBody
from gitops.serving import Access, ServerLimits

log = structlog.get_logger(__name__)

OnChange = Callable[[ProjectKey], Awaitable[None]]


class _PackTooLarge(Exception):
    """More bytes follow the commands than the policy allows."""


@dataclass(frozen=True, slots=True)
class _Incoming:
    """A push on its way in: what was asked, and the rest of the body."""

    request: PushRequest
    portions: AsyncIterator[bytes]
    protocol: str
    access: Access
    repository: Path


@dataclass(frozen=True, slots=True)
class Pushes:
    """Takes pushes into the repositories, and tells `on_change` whenever main really moved."""

    repositories: Repositories
    on_change: OnChange
    limits: ServerLimits

    async def receive_pack(self, exchange: Exchange, body: RequestBody, access: Access, protocol: str) -> None:
        """Answer one request of a push.

        Raises:
            RepositoryBusy, UnknownProject, GitFailed: nothing has changed.
            ClientGone, BodyTooLarge, BodyMalformed, BodyStalled: nothing has changed.
            ClientStalled: main may have moved; `on_change` was told.
        """
        async with contextlib.aclosing(body.portions()) as portions:
            request = await _read_request(portions)
            refused = refuse_commands(request.commands, access.policy)
            if refused is None and request.commands:
                repository = self.repositories.volume.repository(access.project)
                refused = await self._try(exchange, body, _Incoming(request, portions, protocol, access, repository))
            if refused is not None:
                # A client listens only after it has sent everything, so the rest is read and forgotten.
                async for _ in portions:
                    pass
        if refused is not None:
            log.info("push refused", project=str(access.project), cause=refused.words[0])
            await exchange.write(refusal(request, refused.causes, refused.words))
        await exchange.finish()

    async def _try(self, exchange: Exchange, body: RequestBody, incoming: _Incoming) -> Refusal | None:
        try:
            return await self._receive(exchange, body, incoming)
        except (GitFailed, RepositoryBusy, StorageFailed) as error:
            # git prints what a report says, and of a status code only the number.
            if exchange.started or not incoming.request.has_side_band:
                raise
            log.error("push failed", project=str(incoming.access.project), cause=error.message, stderr=getattr(error, "stderr", ""))  # noqa: TRY400 - said in full
            return Refusal({command.ref: "the server could not take it" for command in incoming.request.commands}, [one_line(error)])

    async def _receive(self, exchange: Exchange, body: RequestBody, incoming: _Incoming) -> Refusal | None:
        project = incoming.access.project
        before = await self.repositories.head(project)
        try:
            async with self.repositories.pushing(project) as lock:
                ending = await self._run(exchange, body, incoming, lock)
        except _PackTooLarge:
            return refuse_pack_size(incoming.request.commands, incoming.access.policy)
        finally:
            # Whatever became of the client or of receive-pack: what main names now is what counts.
            await self._notify(project, before)
        await exchange.write(ending)
        return None

    async def _run(self, exchange: Exchange, body: RequestBody, incoming: _Incoming, lock: RepositoryLock) -> bytes:
        """Run receive-pack to its end and return the end of the answer, which the client gets after the notice of the change."""
        watched = ReportFilter(incoming.request)
        with PushGate() as gate:
            command = GitCommand(
                ["receive-pack", "--stateless-rpc", str(incoming.repository)],
                repository=incoming.repository,
                settings={**receive_settings(incoming.access.policy), **gate.settings},
                environment={**protocol_environment(incoming.protocol), **gate.environment},
                inherited=(*gate.descriptors, lock.descriptor),
            )
            async with git_process(command, grace_s=self.limits.grace_s) as process:
                gate.started()
                fed = asyncio.Event()
                await together(_pump(exchange, process, watched, fed), _feed(process, body, incoming, fed), self._guard(gate, incoming, lock))
                status = await process.wait()
        fates = watched.report()
        if status != 0 and not fates:
            log.warning("push failed", project=str(incoming.access.project), status=status, stderr=process.errors)
            if not exchange.started and incoming.request.has_side_band:
                raise GitFailed("cannot take the push: git ended without a report", stderr=process.errors, status=status)
        if met_ref_lock(watched.said):
            self.repositories.suspect(incoming.access.project)
        words, unpack = explain_report(fates, watched.said, incoming.access.policy)
        return watched.finish(words=words, unpack=unpack)

    async def _guard(self, gate: PushGate, incoming: _Incoming, lock: RepositoryLock) -> None:
        refused = await gate.serve(lambda objects: self._check(objects, incoming, lock))
        if refused is not None:
            log.info("push refused", project=str(incoming.access.project), cause=refused.message)

    async def _check(self, objects: Path | None, incoming: _Incoming, lock: RepositoryLock) -> None:
        def run() -> None:
            if objects is not None and objects.resolve().parent != (incoming.repository / "objects").resolve():
                raise PushRefused("cannot check the push: its quarantine lies outside the repository")
            tips = {command.name: command.new for command in incoming.request.commands if not command.deletes}
            check_push(Quarantine(incoming.repository, objects, tips, self.limits.check_s), incoming.access.policy)
            if not _holds(lock):
                raise PushRefused("cannot take the push: the server was cut off from its volume meanwhile", hint="push again")

        try:
            async with asyncio.timeout(self.limits.check_s):
                await anyio.to_thread.run_sync(run, abandon_on_cancel=True)
        except TimeoutError as error:
            cause = f"it took longer than {self.limits.check_s:g} s"
            raise PushRefused(f"cannot check the push: {cause}", hint="push the history in parts") from error
        crash_point("push.checked")

    async def _notify(self, project: ProjectKey, before: str | None) -> None:
        with contextlib.suppress(UnknownProject):
            after = await self.repositories.head(project)
            if after == before:
                return
            log.info("push accepted", project=str(project), old=before, new=after)
            crash_point("push.received")
            try:
                async with asyncio.timeout(self.limits.notify_s):
                    await self.on_change(project)
            except Exception as error:  # noqa: BLE001 - the push is in: a listener's failure must not fail it, and main is read again anyway
                log.error("change not noticed", project=str(project), error=repr(error))  # noqa: TRY400 - the cause is said, the place is known
            crash_point("push.notified")


def _holds(lock: RepositoryLock) -> bool:
    try:
        return lock.take()
    except OSError:
        return False


async def _read_request(portions: AsyncIterator[bytes]) -> PushRequest:
    reader = PushRequestReader()
    try:
        async for portion in portions:
            request = reader.feed(portion)
            if request is not None:
                return request
    except BadLine as error:
        raise BodyMalformed(f"the list of refs cannot be read: {error}") from error
    raise BodyMalformed("the list of refs is cut off")


async def _feed(process: GitProcess, body: RequestBody, incoming: _Incoming, fed: asyncio.Event) -> None:
    limit = incoming.access.policy.max_pack_bytes
    size = len(incoming.request.tail)
    await process.write(incoming.request.head)
    await process.write(incoming.request.tail)
    async for portion in incoming.portions:
        size += len(portion)
        if size > limit:
            raise _PackTooLarge
        await process.write(portion)
    fed.set()
    crash_point("push.body_received")
    process.close_stdin()
    # From here on the client may leave: its push is complete and is decided without it.
    await body.wait_for_disconnect()


async def _pump(exchange: Exchange, process: GitProcess, watched: ReportFilter, fed: asyncio.Event) -> None:
    try:
        while chunk := await process.stdout.read(STREAM_LIMIT_BYTES):
            passed = watched.feed(chunk)
            if passed:
                await exchange.write(passed)
    except BadLine as error:
        raise GitFailed(f"cannot read what git answers to the push: {error}") from error
    # When git gives up early, the client is heard to its end all the same: it listens only then.
    await fed.wait()
