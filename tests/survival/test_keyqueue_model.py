"""The key queue under any interleaving of adding, taking, finishing and waiting."""

from tests.survival.keyqueue_machine import KeyQueueMachine
from tests.survival.profiles import check


def test_any_interleaving_of_adding_and_taking() -> None:
    """One look at a key at a time, none that nobody asked for, none lost; each failure in a row waits longer, up to the limit."""
    check(KeyQueueMachine, examples=60, steps=40)
