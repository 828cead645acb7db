"""The port to a model: one request, one reply, whole or in chunks.

Adapters translate these values to a vendor's protocol and back, price the usage, and turn every failure into `ProviderError`. Must not know
scenarios, checks or results.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from engine.items import Usage
from engine.providers.messages import Message, ToolCall, ToolResult

DEFAULT_MAX_TOKENS: Final = 4096
"""What a remote model may write where nobody says it, so that no call is without a bound."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as it is offered to a model; `input_schema` is a JSON Schema object."""

    name: str
    description: str
    input_schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample; None leaves a parameter out of the request, but `max_tokens`, which is then DEFAULT_MAX_TOKENS for a remote model."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """Where a conversation stands, for providers that answer from a script.

    `turn` counts user messages from 1, this one included; for a streaming turn it is the assistant messages before the turn plus 1
    (promptkit-format.md 4.5). `persona` is set when the reply stands for a simulated user, `step` when it is that of a composition's step.
    `with_tools` says that the conversation has tools even if this request offers none, as in the last state of a workflow.
    """

    scenario: str = ""
    turn: int = 1
    persona: str = ""
    step: str = ""
    with_tools: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """What to answer. `messages` are user, assistant and tool messages in order, never the system prompt, and must not be changed or kept.

    `tool_choice` is auto, required or none. `output_schema` is a JSON Schema that the reply's text should fit: an adapter whose vendor has structured
    output asks for it, any other leaves it out, so that who reads the reply must still check it.
    `cache` asks for prompt caching where the vendor has to be asked.
    `thread` names the line of talk within an item that this request goes on with, for whoever remembers what was said in it; "" is a request that
    stands alone.
    """

    messages: Sequence[Message]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str = "auto"
    sampling: Sampling = Sampling()
    script: Script = Script()
    output_schema: Mapping[str, Any] | None = None
    cache: bool = False
    thread: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request that brought no reply, and was made again. `kind` is that of its ProviderError; `waited_ms` went by until the next request."""

    kind: str
    message: str
    latency_ms: float
    waited_ms: float


Round = tuple[tuple[ToolCall, ToolResult], ...]
"""Tool calls that were made together, each with its result."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said. `usage` is None when the provider reported none; `cost_usd` is None when the provider has no price.

    `finish_reason` is stop, length, tool_calls or content_filter. `latency_ms` and `ttft_ms` are measured by an adapter that waits for other things
    than the model (a rate limit, another attempt): from the request that was answered to the end of its reply, and to its first text; None leaves it
    to whoever asked. `attempts` are the requests before that one. `meta` is kept with the message, and must be JSON.
    `tool_calls` are for us to answer; `own_calls` are those that whoever replied made and answered itself, before the end of its text.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    own_calls: tuple[Round, ...] = ()
    parts: tuple[dict[str, Any], ...] = ()
    usage: Usage | None = None
    cost_usd: float | None = None
    finish_reason: str = "stop"
    latency_ms: float | None = None
    ttft_ms: float | None = None
    attempts: tuple[Attempt, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a streaming reply: new text, or the whole reply, or both. Exactly the last chunk has the reply, with usage and tool calls.

    `attempts` are the requests before the one that is answered, for who does not wait for the reply.
    """

    text: str = ""
    reply: Reply | None = None
    attempts: tuple[Attempt, ...] = ()


class Provider(Protocol):
    """One model behind one protocol, used by many conversations at once.

    Replies arrive as fast as the model gives them: rate limits, retries of single requests and pricing are the adapter's; how long an item may
    take is the worker's, by cancelling.
    """

    @property
    def always_streams(self) -> bool:
        """Say that replies are taken in chunks even where a scenario does not ask for it."""
        ...

    async def complete(self, request: Request) -> Reply:
        """Return the reply to `request`.

        Raises:
            ProviderError: there is none; `transient` says whether another attempt may get one.
        """
        ...

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Return the reply to `request` in chunks. Closing the generator early ends the request; what it had cost is then unknown.

        Raises (while iterating):
            ProviderError: the reply did not come, or broke off.
        """
        ...

    async def close(self) -> None:
        """Free connections. Idempotent."""
        ...
