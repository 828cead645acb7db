"""The two adapters side by side: the same random life of a few objects, step by step, event by event."""

import asyncio
import copy
import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from foundation.clock import SystemClock
from reconcile.cluster.port import ARENA_JOB, Cluster, Object
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.errors import ClusterError, Invalid
from reconcile.kinds.admission import admit, admit_status
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.server_fixture import REAL, clear, connected
from tests.contracts.cluster_objects import NS, job

pytestmark = REAL
NAMES = ("a", "b")
STEPS = 80
VOLATILE = ("uid", "resourceVersion", "creationTimestamp")
HOLD, OTHER = "arena.test/hold", "arena.test/other"
METADATA: tuple[Object, ...] = (
    {"labels": {"tier": "1"}},
    {"labels": {"tier": "2", "team": "x"}},
    {"labels": None},
    {"annotations": {"note": "n"}},
    {"finalizers": [HOLD]},
    {"finalizers": [HOLD, OTHER]},
    {"finalizers": []},
    {"finalizers": None},
    {"uid": "another"},
)
SPECS: tuple[Object, ...] = (
    {"trials": 2},
    {"trials": None},
    {"trials": 0},
    {"suspend": True},
    {"suspend": False},
    {"scenarios": {"include": ["x", "y"]}},
    {"scenarios": None},
    {"trails": 2},
    {},
)
STATUSES: tuple[Object, ...] = (
    {"activeCount": 1},
    {"activeCount": 2, "lastRunRef": {"name": "r"}},
    {"activeCount": None},
    {"lastRunRef": None},
    {"activeCount": -1},
    {"odd": 1},
    {},
)


FAULTS: tuple[tuple[str, Object], ...] = (
    ("metadata", {"uid": "another"}),
    ("spec", {"trials": 0}),
    ("spec", {"trails": 2}),
    ("status", {"activeCount": -1}),
    ("status", {"odd": 1}),
)


class Life:
    """One adapter, with what it last told of each object and what came before that."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.seen: dict[str, list[Object]] = {name: [] for name in NAMES}

    async def step(self, verb: str, name: str, change: Object, *, stale: bool) -> Any:
        """Do one step and return what came of it, without what must differ."""
        try:
            answer = await self._call(verb, name, change, stale=stale)
        except Invalid as refusal:
            return "Invalid", sorted({error.path for error in refusal.errors})
        except ClusterError as error:
            return type(error).__name__
        before = self.seen[name][-1]["metadata"]["resourceVersion"] if self.seen[name] else ""
        if answer is None:
            return "gone"
        self.seen[name].append(copy.deepcopy(answer))
        return normal(answer), answer["metadata"]["resourceVersion"] == before

    async def _call(self, verb: str, name: str, change: Object, *, stale: bool) -> Object | None:
        known = self.seen[name][-2 if stale and len(self.seen[name]) > 1 else -1 :] or [
            merged(job(name), {"metadata": {"resourceVersion": "1", "uid": "none"}})
        ]
        version = known[0]["metadata"]["resourceVersion"]
        match verb:
            case "create":
                return await self.cluster.create(merged(job(name), change))
            case "update":
                return await self.cluster.update(merged({**job(name), **known[0]}, change))
            case "patch":
                return await self.cluster.patch(ARENA_JOB, NS, name, change, resource_version=version if stale else None)
            case "status":
                return await self.cluster.patch_status(ARENA_JOB, NS, name, change["status"], resource_version=version if stale else None)
            case _:
                return await self.cluster.delete(ARENA_JOB, NS, name, uid=known[0]["metadata"]["uid"] if stale else None)


def merged(obj: Object, change: Object) -> Object:
    """Return an object with a change laid over its metadata and spec, key by key."""
    result = copy.deepcopy(obj)
    for part, values in change.items():
        result.setdefault(part, {})
        for key, value in values.items():
            result[part].pop(key, None)
            if value is not None:
                result[part][key] = copy.deepcopy(value)
    result["metadata"].setdefault("name", obj["metadata"].get("name"))
    return result


def normal(obj: Object) -> Object:
    """Return an object without what differs between two stores; of a deletion only that it began."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in VOLATILE}
    if "deletionTimestamp" in metadata:
        metadata["deletionTimestamp"] = "begun"
    return {**obj, "metadata": metadata, "status": obj.get("status") or {}}


def steps(seed: int) -> list[tuple[str, str, Object, bool]]:
    """Return a life: verb, name, change, and whether it is based on an old read."""
    dice = random.Random(seed)  # noqa: S311 - a seed names a life
    verbs = ("create", "create", "update", "patch", "patch", "patch", "status", "status", "delete")
    life = []
    for _ in range(STEPS):
        verb = dice.choice(verbs)
        change: Object = {"status": dice.choice(STATUSES)} if verb == "status" else {}
        if verb in ("create", "update", "patch"):
            change = {"metadata": dice.choice(METADATA)} if dice.random() < 0.5 else {"spec": dice.choice(SPECS)}
        is_faulty = any(change == {part: fault} for part, fault in FAULTS)  # of two faults either may be told
        life.append((verb, dice.choice(NAMES), change, dice.random() < 0.2 and not is_faulty))
    return life


@pytest.fixture
async def lives(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[tuple[Life, Life]]:
    """Give both adapters, empty."""
    kube = connected(control_plane)
    await clear(kube)
    store = SqliteCluster(tmp_path / "store.db", SystemClock(), admit=admit, admit_status=admit_status)
    yield Life(store), Life(kube)
    await store.close()
    await kube.close()


@pytest.mark.parametrize("seed", range(12))
async def test_one_life_in_two_stores(lives: tuple[Life, Life], seed: int) -> None:
    """Every step has the same outcome in both stores, and both watches tell the same story of it."""
    embedded, real = lives
    began = [(await life.cluster.list(ARENA_JOB, NS)).resource_version for life in lives]
    for number, (verb, name, change, stale) in enumerate(steps(seed)):
        outcomes = [await life.step(verb, name, change, stale=stale) for life in (embedded, real)]
        if any(change == {part: fault} for part, fault in FAULTS):  # where the object is missing too, either may be told
            outcomes = [isinstance(outcome, str) or outcome[0] == "Invalid" for outcome in outcomes]
        assert outcomes[0] == outcomes[1], f"step {number}: {verb} {name} {change} stale={stale}"
    listed = [[normal(obj) for obj in (await life.cluster.list(ARENA_JOB, NS)).items] for life in lives]
    assert listed[0] == listed[1]
    await asyncio.gather(*(life.cluster.create(job("last")) for life in lives))
    stories = [await story(life.cluster, version) for life, version in zip(lives, began, strict=True)]
    assert stories[0] == stories[1]


async def story(cluster: Cluster, version: str) -> list[tuple[str, Object]]:
    """Return all changes since a version, up to the creation of the object named last."""
    events: list[tuple[str, Object]] = []
    async with asyncio.timeout(20), aclosing(cluster.watch(ARENA_JOB, NS, version)) as watch:
        async for event in watch:
            if event.object["metadata"]["name"] == "last":
                return events
            events.append((event.type, normal(event.object)))
    raise AssertionError("the watch ended")
