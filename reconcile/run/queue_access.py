"""How a run's workers get into the queue: as a user of their own, whose password a Secret of the run keeps.

The Secret comes first, then the user, then the Job that refers to the Secret; the user and the Secret go when the run has ended and its workers have
left. Source: survival.md, "Owners"; ADR 0013.
"""

import contextlib
import secrets
from collections.abc import Awaitable, Callable
from datetime import timedelta

from engine.errors import QueueRefused
from engine.queue.port import RunUsers
from engine.queue.urls import password_of
from foundation.crash import crash_point
from reconcile.cluster.core_kinds import value_in
from reconcile.cluster.port import SECRET, Object
from reconcile.errors import AlreadyExists, NotFound, Waiting
from reconcile.kinds.reasons import RunReason
from reconcile.run.scope import RunScope
from reconcile.run.worker_jobs import is_own
from reconcile.worker_job import SecretValue
from reconcile.worker_job.queue_secret import URL_KEY, address_data, queue_secret, queue_secret_value

RETRY = timedelta(seconds=5)
PASSWORD_BYTES = 32


async def open_queue(run: RunScope) -> SecretValue | None:
    """See to it that the workers that are about to come can reach the queue, and return where they find its address; None: whoever starts them knows.

    Raises:
        Waiting: a Secret of the name belongs to somebody else, or there is neither a user nor an address that all runs share.
    """
    users = run.world.users
    if users is not None and not users.refusal:
        try:
            await _see_to_user(run, users, _new_password)
        except QueueRefused:
            pass
        else:
            return queue_secret_value(run.name)
    if run.world.pods is not None and run.world.shared_queue is None:
        message = "the queue's store makes no users for runs, and no --queue-secret names an address that all workers share"
        raise Waiting(RunReason.QUEUE_UNAVAILABLE, message, RETRY)
    return run.world.shared_queue


async def keep_queue_open(run: RunScope) -> None:
    """See to it that the workers that are there can come back: the server forgets its users when it starts again.

    Costs no request while the user is known to be there, and keeps a run from nothing when it fails.
    """
    users = run.world.users
    if users is not None and not users.refusal:
        with contextlib.suppress(QueueRefused, Waiting):
            await _see_to_user(run, users, _kept_password)


async def close_queue(run: RunScope) -> None:
    """Take the way into the queue from the workers of a run that has ended: first the user, then the Secret. Idempotent."""
    if run.world.users is None or "workers" not in run.status:
        return
    await run.world.users.drop(run.uid)
    crash_point("access.user_dropped")
    secret = await _stored_secret(run)
    if secret is not None and is_own(run, secret):
        try:
            await run.cluster.delete(SECRET, run.namespace, secret["metadata"]["name"], uid=secret["metadata"]["uid"])
        except NotFound:
            return
        crash_point("access.secret_deleted")


async def _see_to_user(run: RunScope, users: RunUsers, password_of_run: Callable[[RunScope, RunUsers], Awaitable[str]]) -> None:
    if await users.is_made(run.uid):
        return
    password = await password_of_run(run, users)
    crash_point("access.secret_written")
    await users.make(run.uid, password)
    crash_point("access.user_made")


async def _new_password(run: RunScope, users: RunUsers) -> str:
    """Return the password of a new Secret of the run; one that an earlier pass has written keeps its own."""
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    try:
        await run.cluster.create(queue_secret(run.scope.obj, users.url(run.uid, password)))
    except AlreadyExists:
        return await _kept_password(run, users)
    return password


async def _kept_password(run: RunScope, users: RunUsers) -> str:
    """Return the password that the run's Secret keeps; one that is gone, or whose address is out of date, is written first."""
    secret = await _stored_secret(run)
    if secret is None:
        return await _new_password(run, users)
    if not is_own(run, secret):
        message = f"a Secret '{secret['metadata']['name']}' exists that is not this run's"
        raise Waiting(RunReason.JOB_CREATION_FAILED, message, RETRY)
    known = value_in(secret, URL_KEY)
    password = password_of(known) or secrets.token_urlsafe(PASSWORD_BYTES)
    if (url := users.url(run.uid, password)) != known:
        metadata = secret["metadata"]
        data = {"data": address_data(url)}
        await run.cluster.patch(SECRET, run.namespace, metadata["name"], data, resource_version=metadata["resourceVersion"])
    return password


async def _stored_secret(run: RunScope) -> Object | None:
    try:
        return await run.cluster.get(SECRET, run.namespace, queue_secret_value(run.name).name)
    except NotFound:
        return None
