"""How long the model tests look: quickly and always the same in the suite, long and always anew in a soak.

`python -m tests.survival.profiles queue-memory --examples 20000 --steps 60` soaks one model; it prints the steps to a failure, as short as they get.
"""

import argparse
import logging
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

import structlog
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.survival.cluster_machine import ClusterMachine
from tests.survival.keyqueue_machine import KeyQueueMachine
from tests.survival.queue_bench import MemoryBench, ServerBench
from tests.survival.queue_machine import on

MODELS = ("queue-memory", "queue-server", "cluster", "keyqueue")


def check(machine: type[RuleBasedStateMachine], *, examples: int, steps: int, anew: bool = False) -> None:
    """Drive a machine through so many examples of so many steps: the same ones each time, or `anew` others.

    A failure of the first kind is shortened too, which takes a while.
    """
    profile = settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=not anew,
        database=None,
        deadline=None,
        print_blob=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    run_state_machine_as_test(machine, settings=profile)


def main() -> None:
    """Soak one model."""
    parser = argparse.ArgumentParser(description="Soak one of the model tests.")
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=50)
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        machine: type[RuleBasedStateMachine] = {"cluster": ClusterMachine, "keyqueue": KeyQueueMachine}.get(given.model, ClusterMachine)
        if given.model.startswith("queue"):
            bench = stack.enter_context(closing(MemoryBench() if given.model == "queue-memory" else ServerBench(folder)))
            machine = on(bench)
        check(machine, examples=given.examples, steps=given.steps, anew=True)


if __name__ == "__main__":
    main()
