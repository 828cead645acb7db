"""The refs that jobs watch, as they are remembered while their project is known to be unchanged."""

from dataclasses import dataclass
from typing import Any

import pytest

from foundation.clock import FakeClock
from gitops.content import ProjectKey
from gitops.errors import RefNotFound
from gitops.refs import ResolvedRef
from reconcile.job.known_refs import FRESH_S, MAX_PROJECTS, KnownRefs

PROJECT = ProjectKey("ns", "src")


class CountedRepositories:
    """Repositories of which each read is counted, and names another commit."""

    def __init__(self) -> None:
        self.reads = 0

    async def resolve(self, _: ProjectKey, ref: str) -> ResolvedRef:
        """Return what the ref names now."""
        self.reads += 1
        if ref == "gone":
            raise RefNotFound("there is none")
        return ResolvedRef(ref, f"{self.reads:040}", ambiguous=False)


@dataclass
class Look:
    """What a pass offers: a clock, and what is known of the project."""

    clock: FakeClock
    version: str | None = "1"

    @property
    def known(self) -> "Look":
        """What is known."""
        return self

    def find(self, *_: object) -> dict[str, Any] | None:
        """Return the project as it is known."""
        return None if self.version is None else {"metadata": {"resourceVersion": self.version}}


async def looks(refs: KnownRefs, look: Look, ref: str = "refs/heads/main", project: ProjectKey = PROJECT) -> str:
    """Return what a ref names for a pass, "" for nothing."""
    found = await refs.resolve(look, project, ref)  # type: ignore[arg-type]
    return found.commit if found else ""


@pytest.fixture
def repositories() -> CountedRepositories:
    """Repositories that nobody has read."""
    return CountedRepositories()


@pytest.fixture
def refs(repositories: CountedRepositories) -> KnownRefs:
    """The memory of refs over them."""
    return KnownRefs(repositories)  # type: ignore[arg-type]


@pytest.mark.parametrize("ref", ["refs/heads/main", "gone"])
async def test_an_unchanged_project_is_read_once(refs: KnownRefs, repositories: CountedRepositories, ref: str) -> None:
    """Jobs of one project share one read of a ref, also of one that is not there."""
    look = Look(FakeClock())
    assert len({await looks(refs, look, ref) for _ in range(100)}) == 1
    assert repositories.reads == 1


async def test_a_changed_project_is_read_again(refs: KnownRefs, repositories: CountedRepositories) -> None:
    """A push or a fetch changes the project, and then its refs are read."""
    look = Look(FakeClock())
    before = await looks(refs, look)
    look.version = "2"
    assert await looks(refs, look) != before
    assert repositories.reads == 2


async def test_an_answer_grows_old(refs: KnownRefs, repositories: CountedRepositories) -> None:
    """A ref that was moved without a trace is seen after a while."""
    look = Look(FakeClock())
    await looks(refs, look)
    await look.clock.advance(FRESH_S + 1)
    await looks(refs, look)
    assert repositories.reads == 2


async def test_an_unknown_project_is_read_each_time(refs: KnownRefs, repositories: CountedRepositories) -> None:
    """Where nothing is known of the project, nothing says that its refs did not move."""
    look = Look(FakeClock(), version=None)
    await looks(refs, look)
    await looks(refs, look)
    assert repositories.reads == 2


async def test_memory_of_projects_is_bounded(refs: KnownRefs) -> None:
    """However many projects there are and were, few are remembered."""
    look = Look(FakeClock())
    for number in range(MAX_PROJECTS * 2 + 1):
        await looks(refs, look, project=ProjectKey("ns", f"p{number}"))
    assert len(refs._seen) <= MAX_PROJECTS
