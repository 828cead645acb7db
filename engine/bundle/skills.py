"""The values of skills: instructions that a model takes on when it needs them (promptkit-format.md 5.6).

Owns the shapes; `skill_reader.py` reads them. Must not know how a skill is offered or activated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from engine.bundle.model import NOWHERE, Location

SKILL_FILE = "SKILL.md"


@dataclass(frozen=True, slots=True)
class SkillReference:
    """An entry of the arena's `skills`: a directory (relative to the root) or instructions of its own."""

    dir: str = ""
    path: str = ""
    name: str = ""
    description: str = ""
    instructions: str = ""
    preload: bool = False
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill. `directory` is where its `SKILL.md` and resources are, relative to the root; "" for one that the arena file spells out.

    `allowed_tools` are offered, besides the prompt's, once it is active. A preloaded one is active from the start.
    """

    name: str
    description: str
    instructions: str
    allowed_tools: tuple[str, ...] = ()
    preload: bool = False
    directory: str = ""
    location: Location = NOWHERE

    def is_named_by(self, filters: Sequence[str]) -> bool:
        """Say whether a state's filter names this skill: by its name, by a directory that it lies in, or by a glob of either."""
        return any(wanted == self.name or _covers(wanted, self.name) or _covers(wanted, self.directory) for wanted in filters)


def _covers(wanted: str, directory: str) -> bool:
    """Say whether a skill's directory is the one wanted or lies in it; the wanted one may be relative to any directory above."""
    pattern = wanted.removeprefix("./").rstrip("/")
    if not pattern or not directory:
        return False
    steps = directory.split("/")
    return any(fnmatchcase("/".join(steps[first:last]), pattern) for first in range(len(steps)) for last in range(first + 1, len(steps) + 1))
