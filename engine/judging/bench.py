"""The bench: who answers the questions of checks. One serves all items of a runner.

Owns how often a judge is asked and what happens when it gives no verdict. A failure is an error, never a score, and a panel of which one member
fails has no score either. Must not know which score passes.
"""

import asyncio
from typing import TYPE_CHECKING, Protocol

from engine.bundle.model import Bundle
from engine.bundle.model_names import model_for
from engine.checks.evidence import Outcome
from engine.checks.questions import (
    AgentQuestion,
    JudgeQuestion,
    LabelQuestion,
    LikenessQuestion,
    OutsideQuestion,
    ProgramQuestion,
    Question,
    ServiceQuestion,
    ToolQuestion,
)
from engine.checks.shown import shown
from engine.errors import EngineError, JudgeFailed, ProviderError
from engine.judging.briefs import Brief, make_brief, pointers, reminder
from engine.judging.inference import Inference, label_outcome, likeness_outcome
from engine.judging.panels import Vote, tally
from engine.judging.prompts import find_prompt, judge_task, prompt_name
from engine.judging.rubrics import RUBRICS
from engine.judging.verdicts import SCHEMA, Verdict, read_verdict
from engine.providers.ledger import Ledger
from engine.providers.messages import Message
from engine.providers.port import Provider, Reply, Request, Sampling, Script
from foundation.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.tools.outside import Outside

MAX_ATTEMPTS = 3
"""How often a judge is asked one question: again when it gave no verdict. One that is out is the provider's to ask again, as a candidate's is."""


class Judges(Protocol):
    """The providers that judge (engine.conversation.provider_set.ProviderSet)."""

    def judge(self, name: str, model: str = "") -> tuple[Provider, Sampling]:
        """Return a provider and how it samples; `model` replaces its own."""
        ...

    def inference(self, name: str, model: str = "") -> Inference:
        """Return what labels or embeds behind a provider of role inference or embedding; `model` replaces its own."""
        ...


class Bench:
    """Answers questions, many at once. Nothing in it changes after it is built."""

    def __init__(self, bundle: Bundle, judges: Judges, clock: Clock, outside: "Callable[[], Outside] | None" = None) -> None:
        self._bundle = bundle
        self._judges = judges
        self._clock = clock
        self._outside = outside
        self._providers = {judge.name: judge.provider for judge in bundle.arena.judges}

    async def answer(self, question: Question, ledger: Ledger) -> Outcome:
        """Answer `question`; every call is charged to `ledger`, those without a verdict too.

        Raises:
            ProviderError: who was asked did not answer.
            JudgeFailed: a judge gave no verdict.
            ValueError: there is nobody to ask, or too much to show.
        """
        match question:
            case JudgeQuestion():
                return await self._hear(question, ledger)
            case LabelQuestion():
                name = model_for(self._bundle, f"{question.task}_classifier", question.classifier)
                return await label_outcome(question, self._judges.inference(name, question.model), ledger.charge) if name else _nobody("classifier")
            case LikenessQuestion():
                name = model_for(self._bundle, "embedder", question.embedder)
                return await likeness_outcome(question, self._judges.inference(name), ledger.charge) if name else _nobody("embedding model")
            case ServiceQuestion() | AgentQuestion() | ProgramQuestion() | ToolQuestion():
                return await self._ask_outside(question)

    async def _ask_outside(self, question: OutsideQuestion) -> Outcome:
        from engine.judging.outside import ask_outside  # noqa: PLC0415 - only checks that ask somebody outside need it

        if self._outside is None:
            raise ValueError("nobody outside can be asked here")
        return await ask_outside(question, self._bundle, self._outside(), self._clock)

    async def _hear(self, question: JudgeQuestion, ledger: Ledger) -> Outcome:
        names = question.judges or tuple(self._providers)
        if not names:
            if question.without_judge is None:
                raise ValueError("the arena has no judge")
            return question.without_judge
        brief = self.brief(question)
        if len(names) == 1:
            found = [await self._vote(names[0], question, brief, ledger)]
        else:
            async with asyncio.TaskGroup() as group:
                votes = [group.create_task(self._vote(name, question, brief, ledger)) for name in names]
            found = [vote.result() for vote in votes]
        failed = [vote for vote in found if isinstance(vote, EngineError)]
        for error in failed[1:]:  # the first one tells its own
            if isinstance(error, ProviderError):
                ledger.fail(error)
        if failed:
            raise failed[0]
        return tally([vote for vote in found if isinstance(vote, Vote)], question.aggregate)

    def brief(self, question: JudgeQuestion) -> Brief:
        """Return what each judge of `question` is sent.

        Raises:
            BundleInvalid: the prompt that the check names lacks a value.
            ValueError: there is too much to show.
        """
        rubric = RUBRICS[question.rubric_name]
        task, criteria, own = question.instructions or rubric.task, question.criteria or rubric.criteria, question.rubric
        name = prompt_name(self._bundle, question.rubric_name, question.prompt, question.instructions)
        if name:
            prompt = find_prompt(self._bundle, name)
            if prompt is None:
                raise ValueError(f"the bundle has no prompt '{name}' for a judge")
            task, has_criteria, has_rubric = judge_task(self._bundle, prompt, criteria, own, pointers(question))
            criteria, own = "" if has_criteria else criteria, "" if has_rubric else own
        return make_brief(question.exhibits, task.strip(), criteria, own)

    async def _vote(self, name: str, question: JudgeQuestion, brief: Brief, ledger: Ledger) -> Vote | EngineError:
        try:
            provider, sampling = self._judges.judge(self._providers[name], question.model)
            return Vote(name, self._providers[name], await self._ask(provider, sampling, brief, ledger))
        except JudgeFailed as error:
            return JudgeFailed(
                f"cannot get a verdict of judge '{name}': {error}", hint="its provider replies with something else than the JSON asked for"
            )
        except EngineError as error:
            return error

    async def _ask(self, provider: Provider, sampling: Sampling, brief: Brief, ledger: Ledger) -> Verdict:
        messages, fault, said = [Message("user", brief.user)], "", ""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            request = Request(tuple(messages), system=brief.system, sampling=sampling, script=Script(turn=attempt), output_schema=SCHEMA)
            reply = await provider.complete(request)
            ledger.charge(reply)
            try:
                return read_verdict(reply.text, brief.shown)
            except ValueError as error:
                fault, said = _fault(error, reply), reply.text
            messages += [Message("assistant", reply.text), Message("user", reminder(fault))]
        raise JudgeFailed(f"{fault}; its last reply was {shown(said)}")


def _nobody(what: str) -> Outcome:
    """Return what a check comes to in a bundle that has nobody to ask; its author was warned."""
    return Outcome(None, f"the bundle has no {what} to ask", skipped=True)


def _fault(error: ValueError, reply: Reply) -> str:
    return f"{error}; the reply was cut off at its token limit" if reply.finish_reason == "length" else str(error)
