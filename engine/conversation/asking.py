"""Ask a model once: the request goes out, the reply comes in whole or in chunks, and output guardrails judge it.

The stage that turns, steps of compositions and summaries share. Must not know what a reply is for.
"""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from engine.checks.evidence import Evidence
from engine.checks.questions import Answers
from engine.conversation.guardrails import Firing, Guardrails
from engine.errors import ProviderError
from engine.providers.messages import Message
from engine.providers.port import Provider, Reply, Request, Round, Sampling
from foundation.clock import Clock


@dataclass(slots=True)
class Line:
    """A conversation's line to its model, never changed. `answers` is asked by guardrails that need a judge."""

    provider: Provider
    sampling: Sampling
    clock: Clock
    answers: Answers


class Listener(Protocol):
    """Who is told of the first text and of calls that need no answer, and knows what guardrails judge a reply by."""

    ttft_ms: float | None

    def evidence_for(self, text: str, *, latency_ms: float = 0.0) -> Evidence:
        """Return what a guardrail sees of a message that is not in the transcript yet."""
        ...

    def charge(self, reply: Reply) -> None:
        """Count the call that brought `reply`."""
        ...

    def add_own_calls(self, rounds: Sequence[Round]) -> None:
        """Take the calls that whoever replies made and answered itself; the reply comes after them."""
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
    listener.charge(reply)
    if reply.own_calls:
        listener.add_own_calls(reply.own_calls)
    latency_ms = (line.clock.monotonic() - started) * 1000 if reply.latency_ms is None else reply.latency_ms
    if fired is None and guardrails.judge_outputs:
        fired = await guardrails.judge_output(listener.evidence_for(reply.text, latency_ms=latency_ms), line.answers)
    return _message(reply, fired, latency_ms)


async def _listen(line: Line, request: Request, guardrails: Guardrails, listener: Listener, started: float) -> tuple[Reply, Firing | None]:
    """Take a reply in chunks; what one used and cost that a guardrail ends at its beginning, or that breaks off, stays unknown."""
    text = ""
    first_ms: float | None = None
    try:
        async with aclosing(line.provider.stream(request)) as chunks:
            async for chunk in chunks:
                if chunk.text and first_ms is None:
                    first_ms = (line.clock.monotonic() - started) * 1000
                if chunk.reply is not None:
                    _note_first(listener, first_ms if chunk.reply.ttft_ms is None else chunk.reply.ttft_ms)
                    return chunk.reply, None
                known = len(text)
                text += chunk.text
                if guardrails.judge_streams:
                    fired = guardrails.judge_beginning(text, known)
                    if fired is not None:
                        _note_first(listener, first_ms)
                        return Reply(text, finish_reason="content_filter", attempts=chunk.attempts), fired
    except ProviderError:
        if text:
            listener.charge(Reply(text))
        raise
    raise ProviderError("cannot read the reply: the stream ended before its last chunk", kind="protocol", transient=True)


def _note_first(listener: Listener, first_ms: float | None) -> None:
    if listener.ttft_ms is None:
        listener.ttft_ms = first_ms


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
        meta=dict(reply.meta),
    )
