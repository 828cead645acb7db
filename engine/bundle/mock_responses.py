"""What a mock provider's response file says (promptkit-format.md 4.5), as values; `mock_reader.py` reads it strictly.

Owns the shapes. Which entry answers which request is the mock provider's business.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.bundle.model import NOWHERE, Json, Location


@dataclass(frozen=True, slots=True)
class MockToolCall:
    """A tool call that the mock makes."""

    name: str
    arguments: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MockTurn:
    """One reply. `parts` are as written (checked for their keys); without a content of its own, the reply's content is their text."""

    content: str = ""
    parts: tuple[Mapping[str, Json], ...] = ()
    tool_calls: tuple[MockToolCall, ...] = ()
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class MockScript:
    """The replies for one scenario or one self-play persona. None: no default response."""

    default_response: str | None = None
    turns: Mapping[int, MockTurn] = field(default_factory=dict)
    steps: Mapping[str, MockTurn] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MockResponses:
    """A response file, whole."""

    default_response: str | None = None
    scenarios: Mapping[str, MockScript] = field(default_factory=dict)
    selfplay: Mapping[str, MockScript] = field(default_factory=dict)
