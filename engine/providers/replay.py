"""A provider that says again what a recording says: for checks and tools over a conversation that was once real, at no cost.

Owns which recorded reply answers which request, and how long it takes. Must not know where recordings lie.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from engine.bundle.recordings import RecordedCall, RecordedMessage, Recording
from engine.errors import ProviderError
from engine.items import Usage
from engine.providers.messages import ToolCall
from engine.providers.port import Chunk, Reply, Request
from foundation.clock import Clock

MAX_PAUSE_S = 600.0
"""A recording that was left open over night is not waited for."""


class Timing(StrEnum):
    """How long a reply takes: nothing, as long as it took, or that by the speed."""

    INSTANT = "instant"
    REALTIME = "realtime"
    ACCELERATED = "accelerated"


class Match(StrEnum):
    """Which recorded reply answers: the next of the conversation, or the one to the same words."""

    TURN = "turn"
    CONTENT = "content"


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How to replay. `speed` counts when timing is accelerated: 2 takes half the time."""

    timing: Timing = Timing.INSTANT
    match: Match = Match.TURN
    speed: float = 1.0


def options_of(config: Mapping[str, Any]) -> ReplayOptions:
    """Return the options that a provider's `additional_config` sets, as the bundle's reader let them pass."""
    return ReplayOptions(Timing(config.get("timing") or Timing.INSTANT), Match(config.get("match") or Match.TURN), float(config.get("speed") or 1.0))


class ReplayProvider:
    """Answers from one recording. Its usage is what the recording counted; a replay costs nothing."""

    always_streams = False

    def __init__(self, recording: Recording, options: ReplayOptions, clock: Clock) -> None:
        self._recording = recording
        self._options = options
        self._clock = clock
        self._replies = recording.replies
        self._durations_s = _durations_s(recording)
        self._answers = _answers(recording)

    async def complete(self, request: Request) -> Reply:
        """Return the recorded reply.

        Raises:
            ProviderError: the recording has none for this request.
        """
        number = self._find(request)
        message = self._replies[number]
        await self._pause(self._durations_s[number])
        calls = tuple(tool_call(call, call.id or f"call_{place}_{call.name}") for place, call in enumerate(message.calls))
        return Reply(
            message.content,
            tool_calls=calls,
            parts=tuple(dict(part) for part in message.parts),
            usage=Usage(message.input_tokens, message.output_tokens, message.cached_tokens),
            cost_usd=0.0,
            finish_reason="tool_calls" if calls else "stop",
        )

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the recorded reply in one chunk: how it was once cut into pieces is not recorded.

        Raises (while iterating):
            ProviderError: as `complete`.
        """
        reply = await self.complete(request)
        yield Chunk(reply.text, reply)

    async def close(self) -> None:
        """Do nothing: there is nothing to free."""

    def _find(self, request: Request) -> int:
        if self._options.match is Match.CONTENT:
            return self._by_content(request)
        number = sum(message.role == "assistant" for message in request.messages)
        if number >= len(self._replies):
            raise self._missing(f"it has {len(self._replies)} replies, and this would be number {number + 1}")
        return number

    def _by_content(self, request: Request) -> int:
        """Return the reply to the last user message's words; the n-th time they are said, the n-th that was given to them, else the last of those.

        A reply that called tools was followed by others to the same words: they are counted from the user's message on.
        """
        users = [place for place, message in enumerate(request.messages) if message.role == "user"]
        if not users:
            raise self._missing("the request has no message of a user")
        said = request.messages[users[-1]].content
        found = self._answers.get(said.strip())
        if not found:
            raise self._missing("nobody said these words in it")
        times = sum(request.messages[place].content.strip() == said.strip() for place in users)
        replies = found[min(times, len(found)) - 1]
        since = sum(message.role == "assistant" for message in request.messages[users[-1] :])
        if since >= len(replies):
            raise self._missing(f"it has {len(replies)} replies to these words, and this would be number {since + 1}")
        return replies[since]

    async def _pause(self, took_s: float) -> None:
        if self._options.timing is not Timing.INSTANT:
            speed = self._options.speed if self._options.timing is Timing.ACCELERATED else 1.0
            await self._clock.sleep(min(took_s / speed, MAX_PAUSE_S))

    def _missing(self, cause: str) -> ProviderError:
        return ProviderError(f"cannot replay '{self._recording.file}': {cause}", kind="invalid_request", transient=False)


def tool_call(call: RecordedCall, ident: str) -> ToolCall:
    """Return a recorded call as a model made it; text in place of arguments is what could not be read then."""
    return ToolCall(ident, call.name, raw=call.arguments) if isinstance(call.arguments, str) else ToolCall(ident, call.name, dict(call.arguments))


def _answers(recording: Recording) -> dict[str, list[list[int]]]:
    """Return, for what users said, the places of the replies that followed, once for each time it was said."""
    found: dict[str, list[list[int]]] = {}
    replies: list[int] = []
    place = 0
    for message in recording.messages:
        if message.role == "user":
            replies = []
            found.setdefault(message.content.strip(), []).append(replies)
        elif message.role == "assistant":
            replies.append(place)
            place += 1
    return found


def _durations_s(recording: Recording) -> list[float]:
    """Return how long each reply took: as recorded, else the time since the message before it, else nothing."""
    found = []
    before: RecordedMessage | None = None
    for message in recording.messages:
        if message.role == "assistant":
            since_s = (message.at - before.at).total_seconds() if message.at and before and before.at else 0.0
            found.append(max(0.0, since_s) if message.latency_ms is None else message.latency_ms / 1000)
        before = message
    return found
