"""The values of a composition: a graph of steps that turns one input into one output (promptkit-format.md 5.6).

Owns the shapes; `composition_reader.py` reads them. Must not know how a step is run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from engine.bundle.model import NOTHING, NOWHERE, Json, Location


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition over outputs. One of: `path` `op` `value`; all of `every`; any of `some`; not `none`."""

    path: str = ""
    op: str = "equals"
    value: Json = None
    every: tuple["Predicate", ...] = ()
    some: tuple["Predicate", ...] = ()
    none: "Predicate | None" = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `kind` is prompt, agent, tool, branch or parallel; each kind reads its own fields.

    `input` (a text, or an object that is given as JSON) and the strings in `args` may hold `${input}` and `${step.output…}`. A branch goes to `then` or `otherwise` (step ids); the step that it
    does not choose is skipped. A parallel step's output is `{reduce_into: {branch id: output}}`, without `reduce_into` the inner object alone.
    """

    id: str
    kind: str
    prompt_task: str = ""
    input: Json = "${input}"
    output_schema: Mapping[str, Json] | None = None
    max_steps: int = 10
    tool: str = ""
    args: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    predicate: Predicate = Predicate()
    then: str = ""
    otherwise: str = ""
    branches: tuple["Step", ...] = ()
    reduce_into: str = ""
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class Composition:
    """A composition, checked: what a step refers to stands before it, what a branch chooses after it. `output` is the id of the step that answers."""

    name: str
    steps: tuple[Step, ...]
    output: str
    location: Location = NOWHERE

    def all_steps(self) -> Iterator[Step]:
        """Yield every step, those of parallel branches behind their own."""
        for step in self.steps:
            yield step
            yield from step.branches
