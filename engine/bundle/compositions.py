"""The values of a composition: a graph of steps that turns one input into one output (promptkit-format.md 5.6).

Owns the shapes; `composition_reader.py` reads them. Must not know how a step is run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from engine.bundle.model import NOTHING, NOWHERE, Json, Location


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition over outputs. One of: `path` `op` `value` (`op` exists: `value` says whether it must be there); all of `every`; any of `some`; not `none`."""

    path: str = ""
    op: str = "equals"
    value: Json = None
    every: tuple["Predicate", ...] = ()
    some: tuple["Predicate", ...] = ()
    none: "Predicate | None" = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `kind` is prompt, agent, tool, branch or parallel; each kind reads its own fields.

    `input` (a text, or an object that is given as JSON) and the strings in `args` may hold `${input}` and `${step.output…}`. An agent is done when it
    calls no more tools, or calls `ends_with`, within `max_steps` model calls; `tools` narrows what its prompt offers (None: all of it). A branch goes to
    `then` or `otherwise` (step ids); the step that it does not choose is skipped, unless it is the composition's output. A parallel step's output is
    `{reduce_into: …}`: by `reduce` an object of all outputs (barrier), a list of them (append) or the last one (replace). A step is tried at most
    `attempts` times.
    """

    id: str
    kind: str
    prompt_task: str = ""
    input: Json = "${input}"
    output_schema: Mapping[str, Json] | None = None
    tools: tuple[str, ...] | None = None
    max_steps: int = 50
    ends_with: str = ""
    tool: str = ""
    args: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    predicate: Predicate = Predicate()
    then: str = ""
    otherwise: str = ""
    branches: tuple["Step", ...] = ()
    reduce: str = "barrier"
    reduce_into: str = ""
    depends_on: tuple[str, ...] = ()
    attempts: int = 1
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class Composition:
    """A composition, checked: what a step refers to stands before it, what a branch chooses after it. `output` is the id of the step that answers."""

    name: str
    steps: tuple[Step, ...]
    output: str
    input_schema: Mapping[str, Json] | None = None
    output_schema: Mapping[str, Json] | None = None
    location: Location = NOWHERE

    def all_steps(self) -> Iterator[Step]:
        """Yield every step, those of parallel branches behind their own."""
        for step in self.steps:
            yield step
            yield from step.branches
