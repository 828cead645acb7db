"""From a delivery to the projects that it asks a fetch for: prove, read, match, request.

Owns the order of these steps, and what each failure is called. A delivery only ever asks for a look: what is fetched is what the remote then has, so a
delivery that is repeated, late, out of order or lost does no harm. Must not know HTTP beyond a status.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

import anyio.to_thread
from starlette.datastructures import Headers

from foundation.clock import Clock
from hooks.delivery import Delivery, GitHost, Notice, Proof
from hooks.errors import Refused
from hooks.intake import Incoming, Intake, is_form
from hooks.payload import form_document, parse_object, printable
from hooks.rate_limit import Rate, RateLimit
from hooks.subscriptions import SecretUnusable, Subscription, Subscriptions, unknown_secret
from reconcile.cluster.port import Cluster, Object, ObjectKey
from reconcile.errors import NotFound
from reconcile.sync_requests import SyncRequests

ORIGIN = "webhook"
MAX_OTHER_SECRETS = 100
"""So many secrets of other remotes are tried for a delivery to a host's address that none of its own remote's proves."""

_LARGE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Requested:
    """A fetch that was asked for. `sync` is the value that `status.lastHandledSync` will answer with."""

    project: ObjectKey
    sync: str
    suspended: bool


@dataclass(frozen=True, slots=True)
class Taken:
    """A delivery that was proven and understood; it asked for nothing when `requested` is empty."""

    notice: Notice
    requested: tuple[Requested, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """What its owner should know about a project: an event to record once the sender has its answer. Of one topic the owner hears now and then."""

    project: Object
    topic: Literal["secret", "repository"]
    message: str


class Dispatch:
    """Takes deliveries. `findings` of each call collects what project owners should know, also when it raises."""

    def __init__(self, cluster: Cluster, clock: Clock, intake: Intake, per_project: Rate) -> None:
        self._subscriptions = Subscriptions(cluster)
        self._syncs = SyncRequests(cluster)
        self._intake = intake
        self._per_project = RateLimit(per_project, clock)
        self._large = anyio.CapacityLimiter(1)

    async def to_project(self, host: GitHost, key: ObjectKey, headers: Headers, incoming: Incoming, findings: list[Finding]) -> Taken:
        """Take a delivery to a project's own address.

        Raises:
            Refused: with the status that says why; that a project does not exist and that the proof is wrong are the same 401.
            SenderGone, StoreUnavailable: nothing was requested.
        """
        form, proof = is_form(headers, forms=host.forms), host.proof(headers)
        if proof is Proof.ABSENT:
            raise _unproven(host)
        subscription = await self._subscriptions.find(host.name, key)
        secret = await self._secret(subscription, findings)
        if proof is Proof.HEAD and not host.is_proven(Delivery(headers), secret):
            raise _unproven(host)
        limits = self._intake.limits
        async with self._intake.read(incoming, headers, limits.early_bytes if form else limits.max_bytes) as body:
            delivery = Delivery(headers, body, form_document(body) if form else body)
            if not await self._is_proven(host, delivery, secret) or not subscription.exists:
                raise _unproven(host)
            notice = host.notice(headers, _proven_payload(delivery))
        if not notice.asks:
            return Taken(notice)
        if not notice.names(subscription.remote):
            mismatch = _mismatch(notice, subscription)
            findings.append(Finding(subscription.project, "repository", f"a webhook delivery was refused: {mismatch.message}"))
            raise mismatch
        return Taken(notice, await self._request([subscription]))

    async def to_host(self, host: GitHost, headers: Headers, incoming: Incoming, findings: list[Finding], *, suspect: bool) -> Taken:
        """Take a delivery to the address that all projects of a host share, and hand it to those of its remote whose own secret proves it.

        One that only another project's secret proves, as a group's hook sends them for repositories that nobody mirrors, is taken and asks for
        nothing; when `suspect`, for a sender that failed too often, this is not looked into.

        Raises:
            Refused, SenderGone, StoreUnavailable: as for `to_project`.
        """
        form = is_form(headers, forms=host.forms)
        if host.proof(headers) is Proof.ABSENT:
            raise _unproven(host)
        async with self._intake.read(incoming, headers, self._intake.limits.early_bytes) as body:
            delivery = Delivery(headers, body, form_document(body) if form else body)
            notice = host.notice(headers, parse_object(delivery.document))
            subscriptions = await self._subscriptions.of_host(host.name)
            own = [subscription for subscription in subscriptions if notice.names(subscription.remote)]
            proven = [subscription for subscription in own if await self._proves(host, delivery, subscription, findings)]
            if not proven and (suspect or not await self._is_known(host, delivery, subscriptions, own)):
                raise _unproven(host)
        return Taken(notice, await self._request(proven) if notice.asks else ())

    async def _secret(self, subscription: Subscription, findings: list[Finding]) -> bytes:
        """Return the secret to verify with; where there is none, one that nobody knows."""
        try:
            return await self._subscriptions.secret(subscription)
        except SecretUnusable as error:
            if subscription.exists:
                findings.append(Finding(subscription.project, "secret", str(error)))
            return unknown_secret()

    async def _proves(self, host: GitHost, delivery: Delivery, subscription: Subscription, findings: list[Finding]) -> bool:
        return await self._is_proven(host, delivery, await self._secret(subscription, findings))

    async def _is_known(self, host: GitHost, delivery: Delivery, subscriptions: Sequence[Subscription], tried: Sequence[Subscription]) -> bool:
        """Say whether some other project of the host has the secret of this delivery."""
        seen = {subscription.secret_place for subscription in tried}
        others = {subscription.secret_place: subscription for subscription in subscriptions if subscription.secret_place not in seen}
        for subscription in list(others.values())[:MAX_OTHER_SECRETS]:
            if await self._proves(host, delivery, subscription, []):
                return True
        return False

    async def _is_proven(self, host: GitHost, delivery: Delivery, secret: bytes) -> bool:
        """Verify; a large body outside the event loop, one at a time."""
        if len(delivery.body) < _LARGE_BYTES:
            return host.is_proven(delivery, secret)
        return await anyio.to_thread.run_sync(host.is_proven, delivery, secret, limiter=self._large)

    async def _request(self, subscriptions: Sequence[Subscription]) -> tuple[Requested, ...]:
        wait = min((self._per_project.take(subscription.key) for subscription in subscriptions), default=0.0)
        if wait:
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS,
                "cannot take the delivery: too many came for this project",
                hint="send it again; what is lost is found by the next poll",
                headers={"retry-after": str(math.ceil(wait))},
                proven=True,
            )
        requested = []
        for subscription in subscriptions:
            try:
                sync = await self._syncs.request(subscription.key, ORIGIN)
            except NotFound:  # deleted since
                continue
            requested.append(Requested(subscription.key, sync, subscription.suspended))
        return tuple(requested)


def _proven_payload(delivery: Delivery) -> dict[str, object]:
    try:
        return parse_object(delivery.document)
    except Refused as error:
        raise Refused(error.status, error.message, hint=error.hint, proven=True) from error


def _unproven(host: GitHost) -> Refused:
    """Say that nothing at this address knows the sender: one text for every cause."""
    return Refused(
        HTTPStatus.UNAUTHORIZED,
        "cannot take the delivery: no project at this address has a secret that proves it",
        hint=f"check the namespace and the project in the address, that the project's spec.external.webhook names host '{host.name}' and an existing "
        "Secret and key, and that the git host was given the same secret; the project's events say whether its Secret is missing",
        headers={"www-authenticate": f'{host.challenge} realm="arena"'},
    )


def _mismatch(notice: Notice, subscription: Subscription) -> Refused:
    named = notice.path or next(iter(notice.repositories), "")
    about = f"it is about the repository '{printable(named)}'" if named else "its payload names no repository"
    return Refused(
        HTTPStatus.BAD_REQUEST,
        f"cannot take the delivery: {about}, and the project mirrors '{printable(subscription.remote)}'",
        hint="correct spec.external.url or the address of the webhook; a webhook of several repositories belongs to /hooks/HOST"
        if named
        else "let the git host send the whole payload (Azure DevOps: 'Resource details to send' is All)",
        proven=True,
    )
