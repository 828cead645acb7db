"""The mock provider: replies from a response file, token counts and costs from a formula (promptkit-format.md 4.4, 4.5).

Which entry answers, the turn numbers and the token formula are those of the format's reference engine, to the token. `latency_ms` is ours: a
simulated latency, waited on the clock before every reply. Replies of one file are shared by all conversations and never change.
"""

from collections.abc import AsyncGenerator

from engine.bundle.mock_responses import MockResponses, MockScript, MockTurn
from engine.bundle.parts import mock_part
from engine.items import Usage
from engine.providers.messages import Message, ToolCall
from engine.providers.port import Chunk, Reply, Request
from foundation.clock import Clock

CHUNK_CHARACTERS = 20
"""How much text a chunk holds while tools are offered; without tools a reply is one chunk."""

BYTES_PER_TOKEN = 4
USD_PER_TOKEN = 0.01 / 1000
TOKENS_OF_NO_INPUT = 10
TOKENS_OF_NO_OUTPUT = 20
GENERIC_REPLY = "Mock response from provider"
"""What replaces a provider that has no response file under the mock override."""


class MockProvider:
    """Answers from `responses`.

    `generic_reply` is said when the file has nothing for a request; without one, a sentence that names the provider and its model.
    """

    always_streams = True

    def __init__(self, name: str, model: str, responses: MockResponses, clock: Clock, *, latency_ms: float = 0.0, generic_reply: str = "") -> None:
        self._responses = responses
        self._clock = clock
        self._latency_s = latency_ms / 1000
        self._generic = MockTurn(content=generic_reply or f"Mock response for provider {name} model {model}")

    async def complete(self, request: Request) -> Reply:
        """Return the scripted reply, after the simulated latency."""
        if self._latency_s > 0:
            await self._clock.sleep(self._latency_s)
        return self._reply(request)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the scripted reply: in one chunk, or while tools are offered in many, the last of them without text."""
        if self._latency_s > 0:
            await self._clock.sleep(self._latency_s)
        reply = self._reply(request)
        if not _has_tools(request):
            yield Chunk(reply.text, reply)
            return
        for start in range(0, len(reply.text), CHUNK_CHARACTERS):
            yield Chunk(reply.text[start : start + CHUNK_CHARACTERS])
        yield Chunk("", reply)

    async def close(self) -> None:
        """Do nothing: there is nothing to free."""

    def _reply(self, request: Request) -> Reply:
        turn = self._find(request)
        calls = turn.tool_calls if _has_tools(request) else ()
        usage = Usage(input_tokens(request), output_tokens(turn.content))
        return Reply(
            turn.content,
            tool_calls=tuple(ToolCall(f"call_{place}_{call.name}", call.name, dict(call.arguments)) for place, call in enumerate(calls)),
            parts=tuple(mock_part(part) for part in turn.parts),
            usage=usage,
            cost_usd=round((usage.input_tokens + usage.output_tokens) * USD_PER_TOKEN, 10),
            finish_reason="tool_calls" if calls else "stop",
        )

    def _find(self, request: Request) -> MockTurn:
        number = turn_number(request)
        persona = self._responses.selfplay.get(request.script.persona) if request.script.persona else None
        scenario = self._responses.scenarios.get(request.script.scenario)
        if scenario is not None and request.script.step in scenario.steps and persona is None:
            return scenario.steps[request.script.step]
        for script in (persona, scenario):
            found = _entry(script, number) if script is not None else None
            if found is not None:
                return found
        if self._responses.default_response:
            return MockTurn(content=self._responses.default_response)
        return self._generic


def _has_tools(request: Request) -> bool:
    return bool(request.tools) or request.script.with_tools


def _entry(script: MockScript, number: int) -> MockTurn | None:
    found = script.turns.get(number)
    if found is None and script.default_response:
        return MockTurn(content=script.default_response)
    return found


def turn_number(request: Request) -> int:
    """Return the number of the entry that answers `request`, from 1.

    Without tools it is the turn. With tools it is the largest of the turn, the assistant messages in the request and 1, plus 1 if the request
    holds any tool result, from whichever turn.
    """
    if not _has_tools(request):
        return request.script.turn
    assistants = results = 0
    for message in request.messages:
        if message.role == "assistant":
            assistants += 1
        elif message.role == "tool":
            results += 1
    return max(request.script.turn, assistants, 1) + (1 if results else 0)


def input_tokens(request: Request) -> int:
    """Count a request: four bytes of content a token, rounded down for each message; the system prompt is free."""
    return sum(_tokens(message) for message in request.messages) or TOKENS_OF_NO_INPUT


def output_tokens(text: str) -> int:
    """Count a reply: four bytes a token, rounded down."""
    return size_bytes(text) // BYTES_PER_TOKEN or TOKENS_OF_NO_OUTPUT


def _tokens(message: Message) -> int:
    return size_bytes(message.content) // BYTES_PER_TOKEN


def size_bytes(text: str) -> int:
    """Return the length of `text` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
