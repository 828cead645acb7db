"""Hold one conversation: its turns in order, the checks after each, and the conversation's checks at the end (promptkit-format.md 2.3).

All checks of a turn are evaluated. A turn with a failed check is the last one; the conversation's checks then see what there is. A turn that
could not be taken ends everything: an outage is not a score, so nothing is checked after it.
"""

import asyncio
import re
from collections.abc import Iterable, Sequence

from engine.checks.compiled import CompiledCheck
from engine.checks.evidence import Evidence
from engine.checks.questions import Answers
from engine.conversation.evals import AFTER_A_STEP, AFTER_A_TURN, AT_THE_END, due
from engine.conversation.script import ScriptTurn
from engine.conversation.session import Session
from engine.conversation.turn import TurnTaker
from engine.items import CheckResult, Item, Scope
from engine.providers.messages import Message


class Holder:
    """Holds one conversation of `item`, appending to the session's transcript and to `results` as it goes, so that both are there when it breaks."""

    def __init__(self, session: Session, item: Item, results: list[CheckResult]) -> None:
        self._session = session
        self._item = item
        self._results = results
        self._taker = TurnTaker(session)
        self._steps = 0

    async def hold(self) -> int:
        """Hold the conversation to its end; return how many entries of its script were not played, because a check of an earlier one failed.

        Raises:
            ProviderError: a provider call failed.
            ToolLoopStopped: a turn's tool loop ran into a limit.
        """
        script = self._session.script
        unheld = 0
        for number, turn in enumerate(script.turns, 1):
            if not await self._play(turn):
                unheld = len(script.turns) - number
                break
        if script.checks:
            await self._check(script.checks, Scope.CONVERSATION, None)
        if script.evals:
            await self._check(due(script.evals, AT_THE_END, self._item.id), Scope.SESSION, None)
        return unheld

    async def _play(self, turn: ScriptTurn) -> bool:
        """Play an entry of the script; False when a check of it failed."""
        if turn.user is None:
            return await self._exchange(turn, self._scripted(turn))
        for exchange in range(turn.user.most):
            said = await turn.user.speak(self._session, exchange)
            if said.message is not None and not await self._exchange(turn, said.message):
                return False
            if said.is_last:
                break
        return True

    def _scripted(self, turn: ScriptTurn) -> Message:
        variables = self._item.variables
        if not turn.parts:
            return Message("user", perturbed(turn.content, variables) if variables else turn.content)
        parts = [{**part, "text": perturbed(part["text"], variables)} if part["type"] == "text" else dict(part) for part in turn.parts]
        return Message("user", perturbed(turn.content, variables), parts)

    async def _exchange(self, turn: ScriptTurn, message: Message) -> bool:
        """Say a message, hear what follows, and check it; False when a check failed. Exchanges are numbered through the whole conversation."""
        transcript = self._session.transcript
        transcript.begin_turn()
        await self._taker.take(turn, message)
        holds = not turn.checks or await self._check(turn.checks, Scope.TURN, transcript.turns - 1)
        if self._session.script.evals:
            await self._measure(transcript.turns - 1)
        return holds

    async def _measure(self, turn: int) -> None:
        """Make the session evals that are due after a turn."""
        workflow = self._session.transcript.evidence().workflow
        steps = 0 if workflow is None else len(workflow.entered)
        triggers = AFTER_A_STEP if steps > self._steps else AFTER_A_TURN
        self._steps = steps
        await self._check(due(self._session.script.evals, triggers, f"{self._item.id}/{turn}"), Scope.SESSION, turn)

    async def _check(self, checks: Sequence[CompiledCheck], scope: Scope, turn: int | None) -> bool:
        found = await evaluate(checks, self._session.transcript.evidence(), scope, turn, self._session.line.answers)
        self._results.extend(found)
        return not [result for result in found if not result.passed]


async def evaluate(checks: Sequence[CompiledCheck], evidence: Evidence, scope: Scope, turn: int | None, answers: Answers) -> list[CheckResult]:
    """Return the result of each check, in their order. Questions of different checks are asked at once. Never raises for what a check does."""
    told: list[CheckResult] = []
    begun = [check.begin(evidence, scope, turn) for check in checks]
    for found in begun:
        if not isinstance(found, CheckResult):
            break
        told.append(found)
    else:
        return told
    async with asyncio.TaskGroup() as group:
        asked = [
            found if isinstance(found, CheckResult) else group.create_task(check.finish(found, answers, scope, turn))
            for check, found in zip(checks, begun, strict=True)
        ]
    return [found if isinstance(found, CheckResult) else found.result() for found in asked]


def perturbed(content: str, variables: Iterable[tuple[str, str]]) -> str:
    """Return `content` with `{key}` replaced by the item's value, for each of its variables; what a value says is not replaced again."""
    values = {f"{{{key}}}": value for key, value in variables}
    if not values:
        return content
    return re.sub("|".join(map(re.escape, values)), lambda match: values[match.group()], content)
