"""The values of saved conversations to check (kind Eval) and of session evals.

Owns the shapes, as `model.py` does for the rest of a bundle.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.bundle.model import NOWHERE, Assertion, Json, Location, When


@dataclass(frozen=True, slots=True)
class EvalDef:
    """A session eval of a prompt, a pack or the arena (3.7): a measurement that never decides what becomes of an item.

    `check` and `params` are as an `Assertion` has them. `trigger` says when it is made; the sampling ones in `percentage` of 100 cases. `min_score` and
    `max_score` are its threshold, of which `thresholded` says that there is one. `metric` and `groups` are for whoever reads the results.
    """

    id: str
    type: str
    check: str = ""
    params: Mapping[str, Json] = field(default_factory=dict)
    trigger: str = "on_session_complete"
    enabled: bool = True
    percentage: float = 5.0
    when: When | None = None
    message: str = ""
    thresholded: bool = False
    min_score: float | None = None
    max_score: float | None = None
    metric: Mapping[str, Json] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Saved conversations to check (kind Eval): `recording` is relative to the bundle's root and may be a glob, of which each file is one conversation.

    `turn_assertions` hold after each turn of the assistant, as it was when it was said.
    """

    id: str
    file: str
    description: str = ""
    recording: str = ""
    recording_type: str = ""
    turn_assertions: tuple[Assertion, ...] = ()
    conversation_assertions: tuple[Assertion, ...] = ()
    tags: tuple[str, ...] = ()
    mode: str = ""
    speed: float | None = None
    location: Location = NOWHERE

    @property
    def checks(self) -> tuple[Assertion, ...]:
        """Return every check, those of turns first."""
        return (*self.turn_assertions, *self.conversation_assertions)
