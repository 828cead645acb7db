"""What the sweep takes, and what it must leave alone."""

from engine.items import RunUID
from engine.queue.port import RunMeta
from reconcile.cluster.port import ARENA_RUN
from reconcile.run.ownership import Owner, claim
from reconcile.sweep import Sweep
from tests.reconcile.conftest import NAMESPACE, World


async def orphan(world: World) -> str:
    """Leave behind what a run leaves that was removed by force: keys, directory and keep-ref."""
    await world.project_with()
    await world.job()
    await world.look_at_all(2)
    run = await world.run()
    await world.cluster.patch(ARENA_RUN, NAMESPACE, run["metadata"]["name"], {"metadata": {"finalizers": None}})
    await world.cluster.delete(ARENA_RUN, NAMESPACE, run["metadata"]["name"])
    return str(run["metadata"]["uid"])


async def test_leftovers_go_after_an_hour(world: World) -> None:
    """Keys, directory and keep-ref of a uid that has been gone for an hour are removed, and nothing before."""
    await orphan(world)
    sweep = Sweep(world.cluster, world.runs_world, world.clock)
    assert await sweep.sweep() == []
    world.clock._elapsed += 3599
    assert await sweep.sweep() == []
    world.clock._elapsed += 2
    assert len(await sweep.sweep()) == 3
    assert (await world.queue.runs(), await world.repositories.pins(world.project)) == ([], {})
    assert list(world.volume.run(NAMESPACE, "x").parent.iterdir()) == []


async def test_what_a_run_needs_stays(world: World) -> None:
    """Nothing of a run that exists is touched, however old it is."""
    await world.project_with()
    await world.job()
    await world.look_at_all(2)
    sweep = Sweep(world.cluster, world.runs_world, world.clock)
    await sweep.sweep()
    world.clock._elapsed += 7200
    assert await sweep.sweep() == []


async def test_another_installations_directories_stay(world: World) -> None:
    """A directory that another installation marked is not ours to remove."""
    directory = world.volume.run(NAMESPACE, "theirs")
    claim(directory, Owner("gone", "another"))
    sweep = Sweep(world.cluster, world.runs_world, world.clock)
    await sweep.sweep()
    world.clock._elapsed += 7200
    assert await sweep.sweep() == []
    assert directory.is_dir()


async def test_a_uid_that_comes_back_starts_the_hour_again(world: World) -> None:
    """An hour means an hour without interruption."""
    await world.queue.pin(RunUID("uid-1"), RunMeta("sha256:x", 1))
    sweep = Sweep(world.cluster, world.runs_world, world.clock)
    await sweep.sweep()
    world.clock._elapsed += 3000
    await world.queue.drop(RunUID("uid-1"))
    await sweep.sweep()
    await world.queue.pin(RunUID("uid-1"), RunMeta("sha256:x", 1))
    world.clock._elapsed += 1000
    assert await sweep.sweep() == []
