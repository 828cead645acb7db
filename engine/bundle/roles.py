"""The values of those who take part beside the candidate: simulated users, and judges.

Owns the shapes. Must not know what any of them is asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.bundle.model import NOWHERE, Json, Location


@dataclass(frozen=True, slots=True)
class Persona:
    """A simulated user. `id` is metadata.name; one of `system_template` and `system_prompt` is set."""

    id: str
    file: str
    description: str = ""
    system_template: str = ""
    system_prompt: str = ""
    required_vars: tuple[str, ...] = ()
    optional_vars: Mapping[str, str] = field(default_factory=dict)
    goals: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    style: Json = None
    voice: str = ""
    defaults: Json = None
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class Judge:
    """A judge's name and the provider that answers for it."""

    name: str
    provider: str
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class SelfPlayRole:
    """A self-play role and the provider that speaks for it."""

    id: str
    provider: str
    location: Location = NOWHERE
