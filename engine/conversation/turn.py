"""One turn: the user speaks, the model answers, tools run until it stops calling them (promptkit-format.md 2.7).

Steps, in order: input guardrails, provider call, output guardrails, tools, and again. Each works on the transcript of one conversation. Must not
know checks: the conversation asks for them after the turn.
"""

from contextlib import aclosing

from engine.checks.questions import Answers
from engine.conversation.guardrails import Firing
from engine.conversation.script import Script, ScriptTurn
from engine.conversation.tool_loop import NUDGE, TurnLoop
from engine.conversation.transcript import Transcript
from engine.errors import ProviderError
from engine.providers.messages import Message
from engine.providers.port import Provider, Reply, Request, Sampling
from engine.providers.port import Script as Place
from engine.tools.toolbox import failure
from foundation.clock import Clock


class TurnTaker:
    """Takes the turns of one conversation with one provider; `answers` is asked by guardrails that need a judge."""

    def __init__(self, script: Script, provider: Provider, sampling: Sampling, clock: Clock, answers: Answers) -> None:
        self._script = script
        self._provider = provider
        self._sampling = sampling
        self._clock = clock
        self._answers = answers

    async def take(self, transcript: Transcript, turn: ScriptTurn, content: str) -> None:
        """Say `content` and append everything that follows from it.

        Raises:
            ProviderError: a call failed; the transcript ends before it.
            ToolLoopStopped: the tool loop ran into a limit.
            JudgeFailed: a guardrail's judge gave no verdict.
        """
        place = transcript.assistant_messages + 1 if turn.streaming else transcript.user_messages + 1
        transcript.add_user(content)
        guardrails = self._script.guardrails
        blocked = await guardrails.judge_input(transcript.evidence_for(content), self._answers) if guardrails.judge_inputs else None
        if blocked is not None:
            transcript.add_reply(Message("assistant", blocked.text, validations=[blocked.validation]))
            return
        loop = TurnLoop(self._script.limits)
        while True:
            loop.begin_round()
            message = await self._answer(transcript, turn, place)
            transcript.add_reply(message)
            if not message.tool_calls:
                return
            loop.spend(message.cost_usd)
            self._run_tools(transcript, message, loop)

    def _run_tools(self, transcript: Transcript, message: Message, loop: TurnLoop) -> None:
        for call in message.tool_calls:
            result = failure(call, "execution", NUDGE) if loop.repeats(call) else self._script.toolbox.run(call)
            transcript.add_result(call, result)

    async def _answer(self, transcript: Transcript, turn: ScriptTurn, place: int) -> Message:
        script = self._script
        request = Request(
            transcript.messages,
            system=script.system,
            tools=script.offered,
            tool_choice=script.tool_choice,
            sampling=self._sampling,
            script=Place(script.scenario, place),
        )
        started = self._clock.monotonic()
        fired: Firing | None = None
        if turn.streaming or self._provider.always_streams:
            reply, fired = await self._listen(request, transcript, started)
        else:
            reply = await self._provider.complete(request)
        latency_ms = (self._clock.monotonic() - started) * 1000
        if fired is None and script.guardrails.judge_outputs:
            evidence = transcript.evidence_for(reply.text, usage=reply.usage, cost_usd=reply.cost_usd, latency_ms=latency_ms)
            fired = await script.guardrails.judge_output(evidence, self._answers)
        return _message(reply, fired, latency_ms)

    async def _listen(self, request: Request, transcript: Transcript, started: float) -> tuple[Reply, Firing | None]:
        """Take a reply in chunks; when a guardrail fires on its beginning, the rest is not waited for and its usage stays unknown and counts as nothing."""
        guardrails, text = self._script.guardrails, ""
        async with aclosing(self._provider.stream(request)) as chunks:
            async for chunk in chunks:
                if chunk.text and transcript.ttft_ms is None:
                    transcript.ttft_ms = (self._clock.monotonic() - started) * 1000
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
