"""Every row of docs/git-conformance.md, on an open policy and on a main-only project."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from foundation.clock import SystemClock
from gitops.content import ContentVolume
from gitops.repositories import Repositories
from gitops.smart_http import SmartHTTP
from tests.git import conformance, rows_fetch, rows_push
from tests.git.conformance import ELSEWHERE, PAGE, POLICIES, ROWS, Row, Site, has_test, make_template
from tests.gitops.conftest import PROJECT, Authority, Changes, GitClient, GitServer, serving

assert rows_fetch, rows_push  # they fill the registry


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the repository that every row begins with; to be copied."""
    path = tmp_path_factory.mktemp("conformance") / "template.git"
    make_template(path)
    return path


@pytest.fixture
async def site(request: pytest.FixtureRequest, tmp_path: Path, template: Path) -> AsyncIterator[Site]:
    """A server under the policy that the test's parameter names, with a copy of the template."""
    repositories = Repositories(ContentVolume(tmp_path / "content"), SystemClock())
    shutil.copytree(template, repositories.volume.repository(PROJECT))
    (tmp_path / "home").mkdir()
    authority, changes = Authority(POLICIES[request.param]), Changes()
    async with serving(SmartHTTP(repositories, authorize=authority, on_change=changes)) as address:
        yield Site(GitServer(address, repositories, authority, changes), GitClient(tmp_path / "home"), tmp_path)


@pytest.mark.parametrize("site", ["open"], indirect=True)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_open_policy(site: Site, row: Row) -> None:
    """On an open policy the row does what git promises."""
    await row.check(site, "open")


def _marks(row: Row) -> list[pytest.MarkDecorator]:
    # What both policies take is the same code under both, and of the refusals one an area is quick.
    first = next((other for other in ROWS if other.main and other.area == row.area), None)
    return [] if row is first else [pytest.mark.slow]


@pytest.mark.parametrize("site", ["main only"], indirect=True)
@pytest.mark.parametrize("row", [pytest.param(row, id=row.name, marks=_marks(row)) for row in ROWS])
async def test_main_only(site: Site, row: Row) -> None:
    """On a main-only project the same happens, or the push is refused in the words of the table and no ref is changed."""
    await row.check(site, "main only")


def test_page_says_what_is_tested() -> None:
    """docs/git-conformance.md has these rows and no others; `python -m tests.git.conformance` writes it."""
    assert PAGE.read_text(encoding="utf-8") == conformance.page()


@pytest.mark.parametrize(("what", "file", "test"), ELSEWHERE, ids=[test for _, _, test in ELSEWHERE])
def test_what_other_tests_show_is_there(what: str, file: str, test: str) -> None:
    """The page names no test that does not exist."""
    assert what
    assert has_test(file, test)
