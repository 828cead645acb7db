"""ArenaJob: which runs it starts, and which it keeps."""

import pytest

from engine.items import Verdict
from reconcile.cluster.port import ARENA_JOB, ARENA_RUN
from tests.reconcile.conftest import BUNDLE, NAMESPACE, World, condition


async def finish(world: World, verdict: Verdict = Verdict.PASS) -> None:
    """Work and settle every run that goes on."""
    await world.look_at_all(2)
    for run in await world.runs():
        if run["status"]["phase"] == "Running":
            await world.work(run, verdict=lambda _: verdict)
    await world.look_at_all()


async def request_run(world: World, request: str) -> None:
    """Annotate the job as `kubectl annotate` would."""
    await world.cluster.patch(ARENA_JOB, NAMESPACE, "eval", {"metadata": {"annotations": {"arena.omnia.altairalabs.ai/requested-run": request}}})
    await world.look(ARENA_JOB, "eval")


async def test_the_first_run_is_made_once(world: World) -> None:
    """A job without a schedule starts exactly one run by itself, with a name that follows from its uid."""
    await world.project_with()
    await world.job()
    await world.look_at_all(3)
    run = await world.run()
    assert run["metadata"]["name"].startswith("eval-")
    assert run["spec"]["trigger"] == "Manual"
    job = await world.get(ARENA_JOB, "eval")
    assert job["status"]["active"] == [{"name": run["metadata"]["name"], "uid": run["metadata"]["uid"]}]
    assert condition(job)["reason"] == "Scheduled"


async def test_deleting_the_first_run_starts_none(world: World) -> None:
    """The job remembers its last run, so a deleted or pruned one is not made again."""
    await world.project_with()
    await world.job(successfulRunsHistoryLimit=0)
    await finish(world)
    await world.look_at_all(3)
    assert await world.runs() == []
    assert (await world.get(ARENA_JOB, "eval"))["status"]["lastRunRef"]["name"].startswith("eval-")


async def test_a_job_of_the_same_name_starts_its_own_run(world: World) -> None:
    """A job that was deleted and made again has another uid, so its first run is another one."""
    await world.project_with()
    await world.job()
    await world.look_at_all()
    first = (await world.run())["metadata"]["name"]
    await world.cluster.delete(ARENA_JOB, NAMESPACE, "eval")
    await world.look_at_all(2)
    await world.job()
    await world.look_at_all()
    assert [run["metadata"]["name"] for run in await world.runs()] != [first]


async def test_a_requested_run_starts_once_for_each_id(world: World) -> None:
    """The annotation starts one run for each new value, and the answer is in lastHandledRun."""
    await world.project_with()
    await world.job()
    await world.look_at_all()
    await request_run(world, "one")
    await request_run(world, "one")
    await request_run(world, "two")
    assert len(await world.runs()) == 3
    assert (await world.get(ARENA_JOB, "eval"))["status"]["lastHandledRun"] == "two"


async def test_a_suspended_job_starts_nothing(world: World) -> None:
    """While suspended no run starts, and a request waits until the job is resumed."""
    await world.project_with()
    await world.job(suspend=True)
    await request_run(world, "one")
    await world.look_at_all(2)
    assert await world.runs() == []
    assert await world.events("Suspended")
    await world.cluster.patch(ARENA_JOB, NAMESPACE, "eval", {"spec": {"suspend": False}})
    await world.look_at_all()
    assert len(await world.runs()) == 2


async def test_history(world: World) -> None:
    """Finished runs beyond the limits are deleted, oldest first, and each leaves its summary."""
    await world.project_with()
    await world.job(successfulRunsHistoryLimit=1, failedRunsHistoryLimit=1)
    await finish(world)
    for number in range(3):
        world.clock._elapsed += 2
        await request_run(world, str(number))
        await finish(world, Verdict.FAIL if number == 1 else Verdict.PASS)
    await world.look_at_all(2)
    phases = [run["status"]["phase"] for run in await world.runs()]
    assert sorted(phases) == ["Failed", "Succeeded"]
    assert len(list(world.volume.history(NAMESPACE, "eval").iterdir())) == 2


async def test_a_run_keeps_the_spec_of_its_creation(world: World) -> None:
    """Editing a job changes nothing of a run that exists."""
    await world.project_with()
    await world.job(trials=2)
    await world.look_at_all()
    await world.cluster.patch(ARENA_JOB, NAMESPACE, "eval", {"spec": {"trials": 9}})
    await world.look_at_all()
    assert (await world.run())["spec"]["template"]["trials"] == 2


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        pytest.param({"cron": "61 2 * * *"}, "InvalidSchedule", id="a minute that does not exist"),
        pytest.param({"cron": "0 0 2 * * *"}, "InvalidSchedule", id="six fields"),
        pytest.param({"cron": "0 2 * * *", "timezone": "Mars/Olympus"}, "InvalidSchedule", id="an unknown time zone"),
        pytest.param({"cron": "0 2 * * *"}, "NotSupported", id="a schedule, until it is built"),
    ],
)
async def test_a_schedule_starts_no_run(world: World, schedule: dict[str, str], reason: str) -> None:
    """A job with a schedule that cannot be read, or is not supported yet, is Ready=False and starts no run."""
    await world.project_with()
    await world.job(schedule=schedule)
    await world.look_at_all(2)
    assert condition(await world.get(ARENA_JOB, "eval"))["reason"] == reason
    assert await world.runs() == []


class TestOnPush:
    """A new commit of the job's ref starts a run."""

    async def start(self, world: World, **on_push: object) -> None:
        """Make project and job, and end the first run."""
        await world.project_with()
        await world.job(onPush=on_push)
        await finish(world)

    async def test_a_new_commit_starts_a_run_of_it(self, world: World) -> None:
        """The run is pinned to the pushed commit, shows the ref, and its trigger is Push."""
        await self.start(world)
        commit = await world.commit({**BUNDLE, "NOTES": "x"})
        await world.look_at_all(2)
        (run,) = [run for run in await world.runs() if run["spec"]["trigger"] == "Push"]
        assert run["spec"]["template"]["ref"] == commit
        assert run["status"]["source"]["ref"] == "refs/heads/main"

    async def test_the_first_run_counts_as_its_commits(self, world: World) -> None:
        """Without a new commit no second run starts."""
        await self.start(world)
        await world.look_at_all(3)
        assert len(await world.runs()) == 1

    async def test_a_change_outside_the_paths_starts_none(self, world: World) -> None:
        """Only a change that touches a path of onPush.paths starts a run; later ones are compared from there on."""
        await self.start(world, paths=["prompts/**", "*.yaml"])
        await world.commit({**BUNDLE, "docs/readme.md": "x"})
        await world.look_at_all(2)
        assert len(await world.runs()) == 1
        await world.commit({**BUNDLE, "docs/readme.md": "x", "prompts/deep/er.md": "x"})
        await world.look_at_all(2)
        assert len(await world.runs()) == 2

    async def test_pushes_that_nobody_saw_are_one(self, world: World) -> None:
        """Three pushes between two looks start one run, of the newest commit; an event names the two that get none."""
        await self.start(world)
        commits = [await world.commit({**BUNDLE, "NOTES": str(number)}) for number in range(3)]
        await world.look_at_all(2)
        runs = await world.runs()
        assert len(runs) == 2
        assert {run["status"]["source"]["commit"] for run in runs} >= {commits[-1]}
        (message,) = await world.events("PushSuperseded")
        assert [commit[:12] in message for commit in commits[:2]] == [True, True]

    async def test_replace_cancels_the_push_run_before(self, world: World) -> None:
        """By default a newer push cancels the active Push run of its ref, and an event says that it is superseded."""
        await self.start(world)
        await world.commit({**BUNDLE, "NOTES": "1"})
        await world.look_at_all(2)
        world.clock._elapsed += 2
        await world.commit({**BUNDLE, "NOTES": "2"})
        await world.look_at_all(3)
        assert sorted(run["status"]["phase"] for run in await world.runs() if run["spec"]["trigger"] == "Push") == ["Cancelled", "Running"]
        assert await world.events("PushSuperseded")

    async def test_forbid_waits_for_the_push_run_before(self, world: World) -> None:
        """With Forbid the newest commit waits until the active Push run has ended."""
        await self.start(world, concurrencyPolicy="Forbid")
        await world.commit({**BUNDLE, "NOTES": "1"})
        await world.look_at_all(2)
        await world.commit({**BUNDLE, "NOTES": "2"})
        await world.look_at_all(2)
        assert len(await world.runs()) == 2
        await finish(world)
        await world.look_at_all(2)
        assert len(await world.runs()) == 3

    async def test_allow_runs_both(self, world: World) -> None:
        """With Allow Push runs go on beside each other."""
        await self.start(world, concurrencyPolicy="Allow")
        for number in range(2):
            await world.commit({**BUNDLE, "NOTES": str(number)})
            await world.look_at_all(2)
        assert sum(run["status"]["phase"] == "Running" for run in await world.runs()) == 2

    async def test_other_branches_than_wanted_start_none(self, world: World) -> None:
        """onPush.branches names the branches that matter."""
        await self.start(world, branches=["release/*"])
        await world.commit({**BUNDLE, "NOTES": "1"})
        await world.look_at_all(2)
        assert len(await world.runs()) == 1


async def test_a_hand_written_run_is_nobodys(world: World) -> None:
    """A run that a person wrote is reconciled like any other, and no job lists or prunes it."""
    await world.project_with()
    await world.apply(ARENA_RUN, "hand", {"jobRef": {"name": "none"}, "template": {"sourceRef": {"name": "src"}}})
    await world.look_at_all(2)
    assert (await world.run())["status"]["phase"] == "Running"
