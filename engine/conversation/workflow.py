"""Where one conversation stands in a workflow: transitions, visits, artifacts, budgets (promptkit-format.md 5.6).

A transition is scheduled by a call and made when all calls of that reply are answered. Pure but for the clock. Must not know prompts or models.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from engine.bundle.workflows import Artifact, State, Workflow

MAX_ARTIFACT_CHARACTERS = 256 * 1024


class MoveRefused(Exception):
    """An event or an artifact is not possible here; the message says why, to the model."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A scheduled move. `target` is where it really leads; `requested` is where its event points: another state when that one is visited out."""

    event: str
    requested: str
    target: str


class Course:
    """One conversation's way through a workflow.

    `entered` are the states that transitions led to, in order. `elapsed_s` says how long the conversation lasts so far; `calls` counts its tool calls.
    """

    def __init__(self, workflow: Workflow, start: State, *, elapsed_s: Callable[[], float], calls: Callable[[], int]) -> None:
        self._workflow = workflow
        self._elapsed_s = elapsed_s
        self._calls = calls
        self._visits = Counter([start.name])
        self._scheduled: Transition | None = None
        self.state = start
        self.entered: list[str] = []
        self.artifacts: dict[str, str] = {}

    @property
    def terminal(self) -> bool:
        """Say whether the workflow is complete."""
        return self.state.is_final

    @property
    def events(self) -> tuple[str, ...]:
        """Return the events that a model may send now."""
        takes_events = not self.state.terminal and self.state.orchestration in ("internal", "hybrid")
        return tuple(self.state.on_event) if takes_events else ()

    def schedule(self, event: str) -> Transition:
        """Schedule the move that `event` asks for.

        Raises:
            MoveRefused: the state does not take the event, a move is scheduled already, a budget is used up, or the target is visited out.
        """
        if event not in self.events:
            possible = f"events are: {', '.join(self.events)}" if self.events else "it takes none"
            raise MoveRefused(f"state '{self.state.name}' does not take the event '{event}'; {possible}")
        if self._scheduled is not None:
            raise MoveRefused(f"the move to '{self._scheduled.target}' is scheduled already; one reply makes one move")
        limit = self._workflow.budget.max_total_visits
        if limit is not None and self._visits.total() >= limit:
            raise MoveRefused(f"the workflow's budget of {limit} visits is used up")
        requested = self.state.on_event[event]
        self._scheduled = Transition(event, requested, self._open(requested))
        return self._scheduled

    def settle(self) -> bool:
        """Make the scheduled move; False when there is none."""
        if self._scheduled is None:
            return False
        self.state = self._workflow.states[self._scheduled.target]
        self._visits[self.state.name] += 1
        self.entered.append(self.state.name)
        self._scheduled = None
        return True

    def keep(self, name: str, value: str) -> None:
        """Keep an artifact, as this state declares it, else as any other does.

        Raises:
            MoveRefused: no state declares one of this name, or it grows beyond all bounds.
        """
        declared = {entry.name: entry for state in (*self._workflow.states.values(), self.state) for entry in state.artifacts}
        artifact = declared.get(name)
        if artifact is None:
            raise MoveRefused(f"the workflow has no artifact '{name}'; artifacts are: {', '.join(declared) or 'none'}")
        kept = self._with(artifact, value)
        if len(kept) > MAX_ARTIFACT_CHARACTERS:
            raise MoveRefused(f"artifact '{name}' would be longer than {MAX_ARTIFACT_CHARACTERS:,} characters")
        self.artifacts[name] = kept

    def spent(self, calls: int) -> str:
        """Return which budget of the workflow is used up, with `calls` more tool calls than are counted; "" for none."""
        budget = self._workflow.budget
        if budget.max_tool_calls is not None and self._calls() + calls >= budget.max_tool_calls:
            return f"the workflow's budget of {budget.max_tool_calls} tool calls is used up"
        if budget.max_wall_time_s is not None and self._elapsed_s() >= budget.max_wall_time_s:
            return f"the workflow's budget of {budget.max_wall_time_s:g} seconds is used up"
        return ""

    def _with(self, artifact: Artifact, value: str) -> str:
        before = self.artifacts.get(artifact.name, "")
        return f"{before}\n{value}" if artifact.append and before else value

    def _open(self, name: str) -> str:
        """Return the state that a move to `name` ends in: the redirect of a state that is visited out, and of that one again."""
        passed: list[str] = []
        while True:
            state = self._workflow.states[name]
            if state.max_visits is None or self._visits[name] < state.max_visits:
                return name
            passed.append(name)
            if not state.on_max_visits or state.on_max_visits in passed:
                raise MoveRefused(f"state '{name}' was visited {self._visits[name]} times, {state.max_visits} allowed")
            name = state.on_max_visits
