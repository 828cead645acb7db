"""From a plan to a queue: pin it, put the items, and find again what the queue's store lost.

Source: survival.md, steps 3 and 8.
"""

import asyncio
from collections.abc import Iterator, Sequence

from engine.errors import PutRefused, RunSettled, RunUnknown
from engine.items import Item
from engine.queue.port import RunMeta
from engine.results.recovery import recover_records
from foundation.crash import crash_point
from reconcile.kinds.reasons import EventReason, RunReason
from reconcile.run.scope import RunRefused, RunScope

CHUNK = 500


async def pin_queue(run: RunScope) -> None:
    """Pin the queue in the status, then the run in the queue; a queue that lost the run is rebuilt from the plan and the workers' lines."""
    plan = run.planned()
    if not run.status.get("queue"):
        run.status["queue"] = {"source": "Default", "serviceGroup": run.template.service_group or ""}
        await run.scope.save()
        for fault in await run.world.queue.check():
            await run.scope.event("Warning", EventReason.QUEUE_UNSAFE, fault)
    lost = bool(run.status.get("workers")) and not await _is_put(run)
    budget = run.template.budget_limit
    meta = RunMeta(plan.digest, len(plan.items), run.world.installation, float(budget) if budget else None)
    try:
        await run.world.queue.pin(run.uid, meta)
        crash_point("queue.pinned")
        await run.world.queue.publish_plan(run.uid, plan.to_bytes())
        crash_point("queue.plan_published")
    except (PutRefused, RunSettled) as error:
        raise RunRefused(RunReason.QUEUE_LOST, f"the queue holds another run under this uid: {error.message}") from error
    if lost:
        await _rebuild(run)
    run.state = await run.world.queue.state(run.uid)


async def _is_put(run: RunScope) -> bool:
    """Say whether the queue has the run whole. Workers are made after that, so a run with workers whose put is not complete was lost.

    A rebuild that was cut off is no complete put either: the next pass does it again from its start.
    """
    try:
        return (await run.world.queue.state(run.uid)).complete
    except RunUnknown:
        return False


async def _rebuild(run: RunScope) -> None:
    """Count again what the workers' lines prove; `put_items` queues the rest, since a record refuses a second count."""
    queue, counted = run.world.queue, 0
    if run.stop:
        await queue.stop(run.uid, run.stop["reason"])
    records = await asyncio.to_thread(lambda: list(recover_records(run.output, run.planned())))
    for start in range(0, len(records), CHUNK):
        counted += await queue.record(run.uid, records[start : start + CHUNK])
        crash_point("rebuild.recorded")
    total, rest = len(run.planned().items), "are not run" if run.stop else "are queued again"
    await run.scope.event(
        "Warning",
        EventReason.QUEUE_REBUILT,
        f"the queue had lost the run: {counted} of {total} items were counted from the workers' lines, {total - counted} {rest}",
    )


async def put_items(run: RunScope) -> None:
    """Put every chunk that is not there yet, then whatever the store lost since; a stopped run puts nothing."""
    state = run.counted()
    if state.stopped or run.stop:
        return
    items, queue = run.planned().items, run.world.queue
    if not state.complete:
        chunks = list(_chunks(items))
        for number, chunk in enumerate(chunks):
            await queue.put(run.uid, number, [(item.index, item.id) for item in chunk], last=number == len(chunks) - 1)
    elif not state.whole:
        lost = await queue.missing(run.uid)
        await queue.put_again(run.uid, [(index, items[index].id) for index in lost])
        if lost:
            await run.scope.event("Warning", EventReason.QUEUE_REBUILT, f"the queue had lost {len(lost)} items; they are queued again")
    else:
        return
    run.state = await queue.state(run.uid)


def _chunks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), CHUNK):
        yield items[start : start + CHUNK]
