"""What a recorded conversation is, as values: messages with their tool calls, and who spoke.

Owns the shapes; `recording_reader.py` reads the format's three kinds of files into them (promptkit-format.md 3.8, 8.4). Must not know who replays or
checks a recording.
"""

import glob
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from engine.bundle.evaluations import Evaluation
from engine.bundle.model import Bundle, Json
from engine.bundle.paths import resolve_inside
from engine.bundle.perturbations import PLAIN, Variant, variant
from engine.bundle.problems import shown
from engine.errors import BundleInvalid

RECORDING: Final = "recording"
"""The variable of an item that names the file of an eval whose recording is a glob."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A tool call that was made; `arguments` are an object, or the text that was none."""

    id: str
    name: str
    arguments: Mapping[str, Json] | str


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """One message as it was recorded. `role` is system, user, assistant or tool.

    `parts` have the shape of results.jsonl. A tool message has the `name` of its tool, the id of the call it answers in `call_id`, and `error` "" when it
    went well. `latency_ms`, `at` and `cost_usd` are None where the recording does not say, tokens are 0.
    """

    role: str
    content: str = ""
    parts: tuple[Mapping[str, Json], ...] = ()
    calls: tuple[RecordedCall, ...] = ()
    name: str = ""
    call_id: str = ""
    error: str = ""
    latency_ms: float | None = None
    at: datetime | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """One conversation. `file` is relative to the bundle's root; the names are "" where the recording has none."""

    file: str
    messages: tuple[RecordedMessage, ...]
    session: str = ""
    provider: str = ""
    model: str = ""
    tags: tuple[str, ...] = ()

    @property
    def replies(self) -> tuple[RecordedMessage, ...]:
        """Return the assistant's messages, in order."""
        return tuple(message for message in self.messages if message.role == "assistant")


def recordings_of(bundle: Bundle, evaluation: Evaluation) -> tuple[Variant, ...]:
    """Return a variant for each file that an eval's recording names, by name; a plain one where it names one file and no glob.

    Raises:
        BundleInvalid: no file matches the glob, or one that does leaves the bundle.
    """
    if not glob.has_magic(evaluation.recording):
        return PLAIN
    files = sorted(path.relative_to(bundle.root).as_posix() for path in bundle.root.glob(evaluation.recording))
    found = [file for file in files if resolve_inside(bundle.root, file).is_file()]
    if not found:
        raise BundleInvalid(
            f"{evaluation.location}: cannot run eval '{evaluation.id}': no file matches '{shown(evaluation.recording)}'",
            hint="the path is relative to the eval's file",
        )
    return tuple(variant(((RECORDING, file),)) for file in found)
