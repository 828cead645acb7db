"""The key queue under any interleaving of adding, taking, finishing and waiting."""

import pytest

from tests.survival.keyqueue_machine import KeyQueueMachine
from tests.survival.profiles import check


@pytest.mark.parametrize("examples", [pytest.param(25, id="quick"), pytest.param(300, marks=pytest.mark.slow, id="long")])
def test_any_interleaving_of_adding_and_taking(examples: int) -> None:
    """One look at a key at a time, none that nobody asked for, none lost; each failure in a row waits longer, up to the limit."""
    check(KeyQueueMachine, examples=examples, steps=40)
