"""What the tests of single commands share: commands that are forked, since the start of an interpreter is most of what one costs."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.e2e.installation import Namespace, Server
from tests.e2e.nursery import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Return the process that forks the commands of a test session."""
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def namespace(installation: Server, nursery: Nursery, tmp_path: Path) -> Namespace:
    """Return a namespace of the shared server that no other test uses."""
    return Namespace(installation, f"t-{uuid4().hex[:10]}", tmp_path, run=nursery.run)
