"""Ask a model once: the request goes out, the reply comes in whole or in chunks, and output guardrails judge it.

The stage that turns, steps of compositions and summaries share. Must not know what a reply is for.
"""

from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from engine.checks.evidence import Evidence
from engine.checks.questions import Answers
from engine.conversation.guardrails import Firing, Guardrails
from engine.errors import ProviderError
from engine.items import Usage
from engine.providers.messages import Message
from engine.providers.port import Provider, Reply, Request, Sampling
from foundation.clock import Clock


@dataclass(slots=True)
class Line:
    """A conversation's line to its model, never changed. `answers` is asked by guardrails that need a judge."""

    provider: Provider
    sampling: Sampling
    clock: Clock
    answers: Answers


class Listener(Protocol):
    """Who is told of the first text, and knows what guardrails judge a reply by."""

    ttft_ms: float | None

    def evidence_for(self, text: str, *, usage: Usage | None = None, cost_usd: float | None = None, latency_ms: float = 0.0) -> Evidence:
        """Return what a guardrail sees of a message that is not in the transcript yet."""
        ...


async def ask(line: Line, request: Request, guardrails: Guardrails, listener: Listener, *, streaming: bool) -> Message:
    """Return the model's reply as a message, as output guardrails leave it.

    Raises:
        ProviderError: there is no reply.
        JudgeFailed: a guardrail's judge gave no verdict.
    """
    started = line.clock.monotonic()
    fired: Firing | None = None
    if streaming or line.provider.always_streams:
        reply, fired = await _listen(line, request, guardrails, listener, started)
    else:
        reply = await line.provider.complete(request)
    latency_ms = (line.clock.monotonic() - started) * 1000
    if fired is None and guardrails.judge_outputs:
        evidence = listener.evidence_for(reply.text, usage=reply.usage, cost_usd=reply.cost_usd, latency_ms=latency_ms)
        fired = await guardrails.judge_output(evidence, line.answers)
    return _message(reply, fired, latency_ms)


async def _listen(line: Line, request: Request, guardrails: Guardrails, listener: Listener, started: float) -> tuple[Reply, Firing | None]:
    """Take a reply in chunks; when a guardrail fires on its beginning, the rest is not waited for and its usage stays unknown and counts as nothing."""
    text = ""
    async with aclosing(line.provider.stream(request)) as chunks:
        async for chunk in chunks:
            if chunk.text and listener.ttft_ms is None:
                listener.ttft_ms = (line.clock.monotonic() - started) * 1000
            if chunk.reply is not None:
                return chunk.reply, None
            known = len(text)
            text += chunk.text
            if guardrails.judge_streams:
                fired = guardrails.judge_beginning(text, known)
                if fired is not None:
                    return Reply(text, cost_usd=0.0, finish_reason="content_filter"), fired
    raise ProviderError("cannot read the reply: the stream ended before its last chunk", kind="protocol", transient=True)


def _message(reply: Reply, fired: Firing | None, latency_ms: float) -> Message:
    return Message(
        "assistant",
        reply.text if fired is None else fired.text,
        parts=list(reply.parts),
        tool_calls=list(reply.tool_calls),
        latency_ms=latency_ms,
        usage=reply.usage,
        cost_usd=reply.cost_usd,
        validations=[] if fired is None else [fired.validation],
    )
