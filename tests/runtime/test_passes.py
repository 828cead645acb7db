"""What a pass writes: its draft, its outcome, finalizers, and nothing where nothing changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconcile.cluster.port import ARENA_JOB, ObjectKey
from reconcile.errors import Conflict, InvariantBroken, Stalled, Waiting
from reconcile.runtime.controller import Controller, ControllerOptions
from reconcile.runtime.reconciler import Done, Failed, Progressing, Result, Silent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from reconcile.runtime.passes import Pass
    from tests.runtime.conftest import Bench, Scripted

KEY = ObjectKey("arena", "a")


def always(result: Result | Exception) -> Callable[[Pass], Awaitable[Result]]:
    """Return what answers each pass alike."""

    async def act(_: Pass) -> Result:
        if isinstance(result, Exception):
            raise result
        return result

    return act


async def test_status_is_written_at_the_end(bench: Bench, scripted: type[Scripted]) -> None:
    """The draft and the outcome's conditions become the status, with the generation that was seen."""

    async def act(scope: Pass) -> Result:
        scope.status["activeCount"] = 2
        scope.condition("SourceValid", "True", "Pinned")
        return Done("Scheduled")

    await bench.job()
    controller = bench.start(scripted(act))
    await bench.idle(controller)
    status = (await bench.get())["status"]
    assert status["activeCount"] == 2
    assert status["observedGeneration"] == 1
    assert [(c["type"], c["status"], c["reason"]) for c in status["conditions"]] == [
        ("Ready", "True", "Scheduled"),
        ("Reconciling", "False", "Scheduled"),
        ("Stalled", "False", "Scheduled"),
        ("SourceValid", "True", "Pinned"),
    ]


@pytest.mark.parametrize("result", [Done(), Progressing(), Failed("TestsFailed"), Silent(), Stalled("X", "y"), Waiting("X", "y")], ids=str)
async def test_passes_over_an_unchanged_world_write_nothing(bench: Bench, scripted: type[Scripted], result: Result | Exception) -> None:
    """A second pass, an hour later, changes nothing in the store."""
    await bench.job()
    controller = Controller(bench.cluster, scripted(always(result)), clock=bench.clock, options=ControllerOptions(debug=True))
    await controller.pass_over(KEY)
    before = await bench.get()
    await bench.clock.advance(3600)
    await controller.pass_over(KEY)
    assert await bench.get() == before


async def test_a_change_of_the_spec_is_observed(bench: Bench, scripted: type[Scripted]) -> None:
    """After a change of the spec observedGeneration follows."""
    await bench.job()
    controller = bench.start(scripted(always(Done())))
    await bench.idle(controller)
    await bench.cluster.patch(ARENA_JOB, "arena", "a", {"spec": {"suspend": True}})
    await bench.idle(controller)
    assert (await bench.get())["status"]["observedGeneration"] == 2


async def test_a_conflict_overwrites_nothing(bench: Bench, scripted: type[Scripted]) -> None:
    """A pass whose object changed meanwhile writes nothing; another pass sees the new object."""
    first = True

    async def act(scope: Pass) -> Result:
        nonlocal first
        if first:
            first = False
            await bench.cluster.patch(ARENA_JOB, "arena", "a", {"spec": {"suspend": True}})
        scope.status["seen"] = scope.obj["spec"]["suspend"]
        return Done()

    await bench.job()
    controller = bench.start(scripted(act))
    await bench.idle(controller)
    await bench.clock.advance(1)
    await bench.idle(controller)
    status = (await bench.get())["status"]
    assert status["seen"] is True
    assert status["observedGeneration"] == 2


async def test_an_endless_conflict_is_shown(bench: Bench, scripted: type[Scripted]) -> None:
    """A pass that meets a conflict again and again says so in the status at last."""
    await bench.job()
    controller = bench.start(scripted(always(Conflict("Job", "arena", "a-worker"))))
    for _ in range(8):
        await bench.clock.advance(1)
        await bench.idle(controller)
    assert await bench.ready() == ("False", "ProgressingWithRetry")


async def test_deleted_objects_are_passed_until_their_finalizers_go(bench: Bench, scripted: type[Scripted]) -> None:
    """A pass adds a finalizer, sees the deletion, and lets the object go."""
    cleaned: list[str] = []

    async def act(scope: Pass) -> Result:
        if scope.deleting:
            cleaned.append(scope.uid)
            await scope.remove_finalizer("arena.test/clean")
            assert scope.gone
            return Silent()
        scope.status["draft"] = "kept"
        await scope.add_finalizer("arena.test/clean")
        return Done()

    job = await bench.job()
    controller = bench.start(scripted(act))
    await bench.idle(controller)
    assert (await bench.get())["metadata"]["finalizers"] == ["arena.test/clean"]
    assert (await bench.get())["status"]["draft"] == "kept"
    await bench.cluster.delete(ARENA_JOB, "arena", "a")
    await bench.until(lambda: cleaned == [job["metadata"]["uid"]])
    await bench.idle(controller)
    assert (await bench.cluster.list(ARENA_JOB)).items == []


async def test_another_finalizer_still_holds(bench: Bench, scripted: type[Scripted]) -> None:
    """Removing one of several finalizers leaves the object, and its status can be written."""

    async def act(scope: Pass) -> Result:
        if scope.deleting:
            await scope.remove_finalizer("arena.test/clean")
            assert not scope.gone
            return Progressing("Deleting")
        return Done()

    await bench.job(finalizers=["arena.test/clean", "arena.test/other"])
    await bench.cluster.delete(ARENA_JOB, "arena", "a")
    controller = bench.start(scripted(act))
    await bench.idle(controller)
    assert (await bench.get())["metadata"]["finalizers"] == ["arena.test/other"]
    assert await bench.ready() == ("False", "Deleting")


async def test_save_in_the_middle_of_a_pass(bench: Bench, scripted: type[Scripted]) -> None:
    """A draft that is saved in the middle is in the store before the pass goes on; saving again writes nothing."""

    async def act(scope: Pass) -> Result:
        scope.status["pinned"] = {"commit": "abc"}
        changed = await scope.save()
        assert (await bench.get())["status"]["pinned"] == {"commit": "abc"}
        assert await scope.save() is False
        scope.status["saved"] = scope.status.get("saved", changed)
        return Done()

    await bench.job()
    controller = bench.start(scripted(act))
    await bench.idle(controller)
    assert (await bench.get())["status"]["saved"] is True


async def test_removed_keys_leave_the_status(bench: Bench, scripted: type[Scripted]) -> None:
    """A key that the draft no longer has is removed from the stored status, at any depth."""

    async def act(scope: Pass) -> Result:
        scope.status.pop("next", None)
        scope.status["progress"].pop("failed")
        return Done()

    await bench.job()
    await bench.cluster.patch_status(ARENA_JOB, "arena", "a", {"next": "x", "progress": {"total": 3, "failed": 1}})
    await Controller(bench.cluster, scripted(act), clock=bench.clock).pass_over(KEY)
    status = (await bench.get())["status"]
    assert "next" not in status
    assert status["progress"] == {"total": 3}


async def test_conditions_are_the_reducers(bench: Bench, scripted: type[Scripted]) -> None:
    """In debug mode a reconciler that writes Ready by itself ends the controller."""

    async def act(scope: Pass) -> Result:
        scope.status["conditions"] = [{"type": "Ready", "status": "True"}]
        return Done()

    await bench.job()
    controller = Controller(bench.cluster, scripted(act), clock=bench.clock, options=ControllerOptions(debug=True))
    with pytest.raises(InvariantBroken, match="Ready"):
        await controller.pass_over(KEY)
