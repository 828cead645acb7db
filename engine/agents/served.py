"""A bundle as an agent: its prompt, tools and provider answer a user whom nobody scripted.

Owns what of a bundle is served, and how a turn of the engine becomes frames: text as it comes, the calls of tools with their results, the end with what it
used. Must not know sockets.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from engine.agents.frames import Answered, Called, Done, Frame, Said
from engine.bundle.model import Bundle, Scenario
from engine.bundle.problems import did_you_mean, shown
from engine.bundle.supported import check_supported
from engine.conversation import ItemRunner
from engine.conversation.script import ScriptTurn
from engine.conversation.session import Session
from engine.conversation.transcript import Transcript
from engine.conversation.turn import THREAD, TurnTaker
from engine.errors import NoScenarios, ProviderNotFound
from engine.items import Usage
from engine.permissions import NO_PERMISSIONS, Permissions
from engine.plan import MockOverride, Plan, PlanRequest, WorkerOptions, make_plan
from engine.providers.messages import Message, ToolCall, ToolResult
from engine.providers.port import Chunk, Provider, Reply, Request
from engine.selection import bundle_pool, check_known

Emit = Callable[[Frame], None]
"""Takes the frames of a reply, in their order; waits for nothing."""

_BETWEEN_TEXTS: Final = "\n\n"


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a bundle is served; "" chooses what there is only one of.

    `scenario` lends its task type, its variables and the mock's answers to it; `task_type` alone serves that prompt. `mock` is as `arena eval` has it.
    """

    scenario: str = ""
    task_type: str = ""
    provider: str = ""
    mock: str | None = None
    permissions: Permissions = NO_PERMISSIONS


def plan_agent(bundle: Bundle, choice: Choice) -> tuple[Bundle, Plan]:
    """Return a plan of one item, the conversation that is served, and the bundle that it belongs to.

    Raises:
        NoScenarios: the scenario or the prompt is not there, or there are several and none is chosen.
        ProviderNotFound: likewise for the provider.
        EngineError: the bundle cannot be run.
    """
    if choice.provider:
        check_known(bundle_pool(bundle), (choice.provider,))
    scenario = _scenario(bundle, choice)
    chosen = replace(
        scenario, turns=(), conversation_assertions=(), trials=1, providers=(choice.provider,) if choice.provider else scenario.providers
    )
    served = replace(bundle, scenarios={chosen.id: chosen})
    mock = None if choice.mock is None else MockOverride(config=choice.mock or None, outside=True)
    plan = make_plan(served, PlanRequest(arena_file=bundle.arena_file, mock=mock), WorkerOptions(permissions=choice.permissions))
    if len(plan.providers) > 1:
        raise ProviderNotFound(
            f"cannot serve the bundle: {len(plan.providers)} providers can answer", hint=f"choose one: --provider {'|'.join(plan.providers)}"
        )
    check_supported(served, plan)
    return served, plan


def _scenario(bundle: Bundle, choice: Choice) -> Scenario:
    if choice.scenario:
        found = bundle.scenarios.get(choice.scenario)
        if found is None:
            hint = did_you_mean(choice.scenario, bundle.scenarios, otherwise="scenarios are")
            raise NoScenarios(f"cannot find scenario '{shown(choice.scenario)}'", hint=hint)
        return replace(found, task_type=choice.task_type or found.task_type)
    workflow = bundle.arena.workflow
    known = tuple(workflow.states) if workflow is not None else tuple(bundle.prompts)
    task_type = choice.task_type or (workflow.entry if workflow is not None else known[0] if len(known) == 1 else "")
    if not task_type:
        raise NoScenarios(f"cannot serve the bundle: it has {len(known)} prompts", hint=f"choose one: --task-type {'|'.join(known)}, or a --scenario")
    if task_type not in known:
        raise NoScenarios(f"cannot find task type '{shown(task_type)}'", hint=did_you_mean(task_type, known, otherwise="task types are"))
    return Scenario(task_type, bundle.arena_file, task_type=task_type, location=bundle.arena.location)


class ServedBundle:
    """Answers in any number of conversations at once. `runner` is that of the plan, and belongs to whoever made it."""

    def __init__(self, plan: Plan, runner: ItemRunner) -> None:
        self._item = plan.items[0]
        self._runner = runner

    @asynccontextmanager
    async def begin(self, emit: Emit) -> AsyncIterator["ServedConversation"]:
        """Begin a conversation whose frames go to `emit`; what it opens outside is closed when the block ends.

        Raises:
            EngineError: it cannot be begun.
        """
        voice = _Voice(emit)
        transcript = _ShownTranscript(voice)
        async with self._runner.begin(self._item, transcript, self._runner.hearing()) as session:
            session.line = replace(session.line, provider=_Live(session, voice))
            session.begin()
            yield ServedConversation(session, voice)


class ServedConversation:
    """One conversation with a user."""

    def __init__(self, session: Session, voice: "_Voice") -> None:
        self._session = session
        self._voice = voice
        self._taker = TurnTaker(session)

    async def answer(self, content: str) -> None:
        """Answer what the user says; every frame of the reply is emitted, `Done` at last.

        Raises:
            EngineError: the turn could not be taken; there is no `Done`.
        """
        transcript = self._session.transcript
        usage, cost_usd = transcript.usage, transcript.cost_usd
        self._voice.begin_turn()
        transcript.begin_turn()
        await self._taker.take(ScriptTurn(content, streaming=True, checks=()), Message("user", content))
        spent = None if transcript.cost_usd is None or transcript.ledger.cost_is_partial else round(transcript.cost_usd - (cost_usd or 0.0), 10)
        self._voice.emit(Done(usage=_since(usage, transcript.usage), cost_usd=spent))


def _since(before: Usage, now: Usage) -> Usage | None:
    used = Usage(
        now.input_tokens - before.input_tokens,
        now.output_tokens - before.output_tokens,
        now.cached_tokens - before.cached_tokens,
        now.reasoning_tokens - before.reasoning_tokens,
    )
    return None if used == Usage() else used


class _Voice:
    """Says each text once, whether it came in pieces before its message or only with it; a second text of one turn is set off from the first."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self._has_spoken = False
        self._live = ""

    def begin_turn(self) -> None:
        """Begin a reply."""
        self._has_spoken, self._live = False, ""

    def say_piece(self, text: str) -> None:
        """Say a piece of a message that is being given."""
        self._say(text, begins=not self._live)
        self._live += text

    def say_message(self, text: str) -> None:
        """Say what of a whole message was not said in pieces."""
        live, self._live = self._live, ""
        rest = text.removeprefix(live)
        if rest:
            self._say(rest, begins=not live)

    def _say(self, text: str, *, begins: bool) -> None:
        self.emit(Said(_BETWEEN_TEXTS + text if begins and self._has_spoken else text))
        self._has_spoken = True


class _ShownTranscript(Transcript):
    """A transcript whose messages are shown as they are added."""

    def __init__(self, voice: _Voice) -> None:
        super().__init__()
        self._voice = voice

    def add_reply(self, message: Message) -> None:
        """Append a message, and show it with its calls."""
        super().add_reply(message)
        self._voice.say_message(message.content)
        for call in message.tool_calls:
            self._voice.emit(Called(call))

    def add_result(self, call: ToolCall, result: ToolResult) -> None:
        """Append a result, and show it."""
        super().add_result(call, result)
        self._voice.emit(Answered(call.id, result.content, result.error))


class _Live:
    """The provider of a served conversation: what it says to the user is passed on as it comes, unless a guardrail must see the whole of it first."""

    always_streams = True

    def __init__(self, session: Session, voice: _Voice) -> None:
        self._session = session
        self._provider: Provider = session.line.provider
        self._voice = voice

    async def complete(self, request: Request) -> Reply:
        """Return the reply, as the port says; it is not for the user."""
        return await self._provider.complete(request)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Return the reply in chunks, as the port says, each said to the user as it comes."""
        live = request.thread == THREAD and not self._session.brief.guardrails.judge_outputs
        async with aclosing(self._provider.stream(request)) as chunks:
            async for chunk in chunks:
                if live and chunk.text:
                    self._voice.say_piece(chunk.text)
                yield chunk

    async def close(self) -> None:
        """Leave it open: others use it too."""
