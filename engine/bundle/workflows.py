"""The values of a workflow: states that an assistant moves through by events (promptkit-format.md 5.6).

Owns the shapes and what follows from them alone; `workflow_reader.py` reads them. Must not know how a conversation moves.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engine.bundle.model import NOTHING, NOWHERE, Location


@dataclass(frozen=True, slots=True)
class Artifact:
    """Something that a conversation leaves in a workflow, by `workflow__set_artifact`; `append` adds to what is there instead of replacing it."""

    name: str
    type: str = ""
    description: str = ""
    append: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """One state. `on_event` is event -> state.

    `orchestration` says who sends events: the model (internal), nobody in an arena (external), the model (hybrid); composition runs the composition named.
    The `max_visits`-th entry is the last; a further one is redirected to `on_max_visits`, or refused without one. `skills` None means all skills of
    the arena; otherwise names, or directories of skills.
    """

    name: str
    prompt_task: str = ""
    description: str = ""
    on_event: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    orchestration: str = "internal"
    composition: str = ""
    skills: tuple[str, ...] | None = None
    terminal: bool = False
    max_visits: int | None = None
    on_max_visits: str = ""
    artifacts: tuple[Artifact, ...] = ()
    location: Location = NOWHERE

    @property
    def is_final(self) -> bool:
        """Say whether a workflow is complete in this state: it says so, or no event leaves it."""
        return self.terminal or not self.on_event


@dataclass(frozen=True, slots=True)
class Budget:
    """How far one conversation may go through a workflow; None is no limit."""

    max_total_visits: int | None = None
    max_tool_calls: int | None = None
    max_wall_time_s: float | None = None


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow, checked: every state that is named is there."""

    entry: str
    states: Mapping[str, State]
    budget: Budget = Budget()
    location: Location = NOWHERE

    def start(self, task_type: str) -> State | None:
        """Return where a scenario of `task_type` starts; None when it names no state.

        "" is the entry. Otherwise it is the state of that name, or one with that prompt; the entry before others.
        """
        entry = self.states[self.entry]
        if task_type in ("", entry.name, entry.prompt_task):
            return entry
        named = self.states.get(task_type)
        return named or next((state for state in self.states.values() if state.prompt_task == task_type), None)

    def reachable(self, start: str) -> Iterable[State]:
        """Return `start` and every state that events and redirects lead to from there, each once."""
        found = {start: None}
        waiting = [start]
        while waiting:
            state = self.states[waiting.pop()]
            for target in (*state.on_event.values(), state.on_max_visits):
                if target and target not in found:
                    found[target] = None
                    waiting.append(target)
        return [self.states[name] for name in found]
