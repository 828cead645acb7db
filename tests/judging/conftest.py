"""Benches of bundles written to disk for one test."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.bundle.model import Bundle
from engine.judging.bench import Bench
from engine.providers.ledger import Ledger
from foundation.clock import FakeClock
from tests.judging.courtroom import Saying, Seats, write_arena


@pytest.fixture
def costs() -> Ledger:
    """Return an empty ledger."""
    return Ledger()


@pytest.fixture
def arena(tmp_path: Path) -> Callable[..., Bundle]:
    """Write a bundle with judges, as `write_arena` does, and load it."""

    def write(*judges: str, **more: Any) -> Bundle:
        return write_arena(tmp_path, *judges, **more)

    return write


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., Bench]:
    """Return the bench of a bundle whose judges these speakers are."""

    def build(**speakers: Saying) -> Bench:
        return Bench(write_arena(tmp_path, *speakers), Seats(**speakers), FakeClock())

    return build
