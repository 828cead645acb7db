"""One turn: the user speaks, the model answers, tools run until it stops calling them (promptkit-format.md 2.7).

A turn is a row of small stages over one session: say, ask, record, call, settle, and again from ask. Each stage is a method; what a stage needs to
know of workflows, skills or memories it asks the session. Must not know checks: the conversation asks for them after the turn.
"""

from typing import Final

from engine.conversation.asking import ask
from engine.conversation.interference import Interference
from engine.conversation.script import ScriptTurn
from engine.conversation.session import Session
from engine.conversation.tool_loop import NUDGE, TurnLoop
from engine.providers.messages import Message
from engine.providers.port import Request
from engine.providers.port import Script as Place
from engine.tools.toolbox import failure

THREAD: Final = "turns"
"""The line of talk that a conversation's turns are (`Request.thread`)."""


class TurnTaker:
    """Takes the turns of one conversation."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._transcript = session.transcript

    async def take(self, turn: ScriptTurn, message: Message) -> None:
        """Say the user's `message` and append everything that follows from it.

        Raises:
            ProviderError: a call failed; the transcript ends before it.
            ToolLoopStopped: the tool loop ran into a limit.
            JudgeFailed: a guardrail's judge gave no verdict.
            ContextExceeded: the conversation does not fit its context policy.
            CompositionFailed: a step of the composition that answers did not do its part.
        """
        place = self._place(turn)
        self._transcript.add_user(message)
        if self._session.brief.guardrails.judge_inputs and await self._refused(message.content):
            return
        loop = TurnLoop(self._session.brief.limits)
        while True:
            performer = self._session.performer()
            if performer is not None:
                await performer.perform(self._session, message.content, streaming=turn.streaming)
                return
            loop.begin_round()
            reply = await self._ask(turn, place)
            self._transcript.add_reply(reply)
            if not reply.tool_calls:
                return
            loop.spend(reply.cost_usd)
            await self._call(reply, loop, turn.interference)
            if self._session.settle():
                loop.forget()

    def _place(self, turn: ScriptTurn) -> Place:
        script, transcript = self._session.script, self._transcript
        number = transcript.assistant_messages + 1 if turn.streaming else transcript.user_messages + 1
        return Place(script.scenario, number, with_tools=bool(script.faculties))

    async def _refused(self, content: str) -> bool:
        """Say whether an input guardrail answers in the model's place."""
        fired = await self._session.brief.guardrails.judge_input(self._transcript.evidence_for(content), self._session.line.answers)
        if fired is not None:
            self._transcript.add_reply(Message("assistant", fired.text, validations=[fired.validation]))
        return fired is not None

    async def _ask(self, turn: ScriptTurn, place: Place) -> Message:
        session, brief, transcript = self._session, self._session.brief, self._transcript
        shown = None if session.window is None else await session.fit(session.window, place)
        messages, transcript.system = shown or (transcript.messages, session.system())
        request = Request(
            messages,
            system=transcript.system,
            tools=session.offered(),
            tool_choice=brief.tool_choice,
            sampling=session.line.sampling,
            script=place,
            cache=session.script.cache,
            thread=THREAD,
        )
        reply = await ask(session.line, request, brief.guardrails, transcript, streaming=turn.streaming)
        reply.meta |= transcript.ledger.tell()
        return reply

    async def _call(self, reply: Message, loop: TurnLoop, interference: Interference | None) -> None:
        """Have the tool calls of `reply` answered, and append the answers in the order of the calls."""
        repeated = [loop.repeats(call) for call in reply.tool_calls]
        asked = [call for call, again in zip(reply.tool_calls, repeated, strict=True) if not again]
        answered = iter(await self._session.answer(asked, interference))
        for call, again in zip(reply.tool_calls, repeated, strict=True):
            self._transcript.add_result(call, failure(call, "execution", NUDGE) if again else next(answered))
