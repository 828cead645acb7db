"""What tests of webhooks share."""

from collections.abc import AsyncIterator

import pytest

from tests.hooks.sender import Hooks


@pytest.fixture
async def hooks() -> AsyncIterator[Hooks]:
    """Give a receiver over an empty store."""
    found = Hooks()
    yield found
    await found.cluster.close()
