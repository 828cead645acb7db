"""What a worker holds: a lease of an entry is not another lease of the same entry."""

import asyncio
from dataclasses import replace

from engine.items import RunUID
from engine.queue.port import Lease
from engine.worker_hand import Hand

OLD = Lease(RunUID("run"), 0, "s/p/1", "w", "1-0", deliveries=1)
NEW = replace(OLD, deliveries=2, crashes=1)


async def test_an_old_token_gives_up_no_newer_lease() -> None:
    """A worker that stalled and took its own item over keeps the newer lease when the old one is reported lost, or ends."""
    hand = Hand()
    task = asyncio.create_task(asyncio.sleep(60))
    hand.begin(NEW, task)
    hand.drop(OLD)
    hand.end(OLD)
    assert (hand.running, task.cancelling()) == (1, 0)
    hand.drop(NEW)
    assert (hand.running, task.cancelling()) == (0, 1)
    await asyncio.wait([task])
