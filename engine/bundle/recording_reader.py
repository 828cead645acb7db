"""Reads recorded conversations: a session's events, a result of the format's engine, a transcript in YAML.

Owns which file is which, and their keys. Other programs write these files, so keys it does not know mean nothing; what it does read must be what it
must be. Must not know who replays or checks a recording.
"""

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.bundle.files import BundleFiles
from engine.bundle.model import Location
from engine.bundle.parts import recorded_part
from engine.bundle.problems import Problems, did_you_mean, shown
from engine.bundle.recordings import RecordedCall, RecordedMessage, Recording
from engine.bundle.yamltree import to_json
from engine.errors import BundleInvalid

ROLES = ("system", "user", "assistant", "tool")
MAX_MESSAGES = 10_000
_SUFFIXES = {
    ".recording.json": "session",
    ".arena-output.json": "arena_output",
    ".arena.json": "arena_output",
    ".transcript.yaml": "transcript",
    ".transcript.yml": "transcript",
}

Object = Mapping[str, Any]


def kind_of(file: str, wanted: str = "") -> str:
    """Return what kind of recording a file is: what its author says, else by its name.

    Raises:
        BundleInvalid: neither says, or it is a kind that nobody reads.
    """
    if wanted == "generic":
        raise BundleInvalid(f"{file}: cannot read the recording: type 'generic' has no reader", hint="types are: session, arena_output, transcript")
    found = wanted or next((kind for suffix, kind in _SUFFIXES.items() if file.endswith(suffix)), "")
    if not found:
        raise BundleInvalid(
            f"{file}: cannot read the recording: its name does not say of which kind it is",
            hint=f"set recording.type to session, arena_output or transcript, or end the name with {', '.join(_SUFFIXES)}",
        )
    return found


def load_recording(root: Path, file: str, wanted: str = "") -> Recording:
    """Read one recording; `file` is relative to the bundle's root.

    Raises:
        BundleInvalid: it is not there, leaves the bundle, or cannot be read; the message starts with the file.
    """
    kind = kind_of(file, wanted)
    problems = Problems()
    content = _content(BundleFiles(root, problems), file, yaml=kind == "transcript")
    problems.raise_errors()
    if not isinstance(content, Mapping):
        raise _unreadable(file, "it must be an object")
    recording = _READERS[kind](file, content)
    if not recording.replies:
        raise _unreadable(file, "it has no message of an assistant")
    return recording


def _content(files: BundleFiles, file: str, *, yaml: bool) -> Any:
    place = Location(file, 0)
    if yaml:
        opened = files.open(file, place)
        return None if opened is None else files.attempt(opened[0], lambda: to_json(*opened))
    text = files.read_text(file, place)
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError as error:  # a JSONDecodeError is one, and so is a number of 5,000 digits
        raise BundleInvalid(f"{file}:{getattr(error, 'lineno', 0)}: cannot read the recording: {getattr(error, 'msg', error)}") from error
    except RecursionError as error:
        raise _unreadable(file, "it is nested too deeply") from error


def _session(file: str, content: Object) -> Recording:
    """A session: what a recorder wrote, event by event; events that are no messages (audio, tool timings) are passed over."""
    metadata = _object(file, "metadata", content.get("metadata"))
    events = [_object(file, "an event", event) for event in _list(file, "events", content.get("events"))]
    said = [
        {"timestamp": event.get("timestamp"), **_object(file, "a message", event.get("message"))}
        for event in events
        if event.get("type") == "message"
    ]
    return _recording(file, said, metadata, metadata.get("provider_id") or metadata.get("provider"))


def _arena_output(file: str, content: Object) -> Recording:
    """A result that the format's engine wrote of a run."""
    metadata = {"session_id": content.get("RunID"), "tags": content.get("SessionTags")}
    return _recording(file, _list(file, "Messages", content.get("Messages")), metadata, content.get("ProviderID"))


def _transcript(file: str, content: Object) -> Recording:
    """A transcript, as a person would write one."""
    metadata = _object(file, "metadata", content.get("metadata"))
    return _recording(file, _list(file, "messages", content.get("messages")), metadata, metadata.get("provider"))


_READERS: Mapping[str, Callable[[str, Object], Recording]] = {"session": _session, "arena_output": _arena_output, "transcript": _transcript}


def _recording(file: str, messages: list[Any], metadata: Object, provider: Any) -> Recording:
    if len(messages) > MAX_MESSAGES:
        raise _unreadable(file, f"its {len(messages)} messages are over the limit of {MAX_MESSAGES:,}")
    return Recording(
        file,
        tuple(_message(file, number, _object(file, f"message {number}", message)) for number, message in enumerate(messages, 1)),
        session=_text(metadata.get("session_id")),
        provider=_text(provider),
        model=_text(metadata.get("model")),
        tags=tuple(str(tag) for tag in metadata.get("tags") or () if isinstance(tag, str)),
    )


def _message(file: str, number: int, message: Object) -> RecordedMessage:
    role = message.get("role")
    if role not in ROLES:
        raise _unreadable(file, f"message {number} has role '{shown(str(role))}'", did_you_mean(str(role), ROLES, otherwise="roles are"))
    answer, cost = _object(file, "tool_result", message.get("tool_result")), _object(file, "cost_info", message.get("cost_info"))
    parts = [_object(file, "a part", part) for part in _list(file, "parts", [*(message.get("parts") or ()), *(answer.get("parts") or ())])]
    content = (
        _text(message.get("content"))
        or _text(answer.get("content"))
        or "".join(_text(part.get("text")) for part in parts if part.get("type") == "text")
    )
    return RecordedMessage(
        str(role),
        content or _text(answer.get("error")),
        parts=tuple(recorded_part(part) for part in parts if part.get("type") != "text"),
        calls=tuple(_call(file, _object(file, "a tool call", call)) for call in _list(file, "tool_calls", message.get("tool_calls"))),
        name=_text(answer.get("name") or message.get("name")),
        call_id=_text(answer.get("id") or message.get("tool_call_id")),
        error=_text(answer.get("error")),
        latency_ms=_latency(message, answer),
        at=_moment(message.get("timestamp")),
        input_tokens=_count(cost.get("input_tokens")),
        output_tokens=_count(cost.get("output_tokens")),
        cached_tokens=_count(cost.get("cached_tokens")),
        cost_usd=_amount(cost.get("total_cost_usd")),
    )


def _call(file: str, call: Object) -> RecordedCall:
    """Read a call in the format's spelling (`args`) or in that of most vendors (`function.arguments`, JSON in a text)."""
    function = _object(file, "function", call.get("function"))
    arguments: Any = next((value for value in (call.get("args"), call.get("arguments"), function.get("arguments")) if value is not None), {})
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            parsed = None
        arguments = parsed if isinstance(parsed, Mapping) else arguments
    if not isinstance(arguments, Mapping | str):
        raise _unreadable(file, "the arguments of a tool call must be an object")
    return RecordedCall(_text(call.get("id")), _text(call.get("name") or function.get("name")), arguments)


def _latency(message: Object, answer: Object) -> float | None:
    own = _amount(message.get("latency_ms"))
    return _amount(answer.get("latency_ms")) if own is None else own


def _amount(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and math.isfinite(value) else None


def _moment(value: Any) -> datetime | None:
    """Return when a message was said; what is no time is as good as none: it decides nothing but a replay's pace."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _object(file: str, what: str, value: Any) -> Object:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _unreadable(file, f"{what} must be an object")
    return value


def _list(file: str, what: str, value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _unreadable(file, f"'{what}' must be a list")
    return value


def _unreadable(file: str, cause: str, hint: str = "") -> BundleInvalid:
    return BundleInvalid(f"{file}: cannot read the recording: {cause}", hint=hint)
