"""What whoever runs items gives the providers of a plan: the environment that keys stand in, and how many workers share the limits.

Values only; `remotes.py` makes the connections.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Connections:
    """What a process brings. `workers` work at the run, this one included. `media_cache` is a folder for media; None: one of the process's own."""

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    workers: int = 1
    media_cache: Path | None = None


NO_CONNECTIONS = Connections()
