"""The values of saved conversations to check (kind Eval) and of session evals; read and checked, but not run yet.

Owns the shapes, as `model.py` does for the rest of a bundle.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.bundle.model import NOWHERE, Assertion, Json, Location


@dataclass(frozen=True, slots=True)
class EvalDef:
    """A session eval of a prompt, a pack or the arena (3.7)."""

    id: str
    type: str
    spec: Mapping[str, Json] = field(default_factory=dict)
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A saved conversation to check (kind Eval); `recording` is relative to the bundle's root and may be a glob."""

    id: str
    file: str
    description: str = ""
    recording: str = ""
    recording_type: str = ""
    turns: Json = None
    conversation_assertions: tuple[Assertion, ...] = ()
    tags: tuple[str, ...] = ()
    mode: str = ""
    speed: float | None = None
    location: Location = NOWHERE
