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
from engine.conversation.script import Script
from engine.conversation.transcript import Transcript
from engine.conversation.turn import TurnTaker
from engine.items import CheckResult, Item, Scope


async def hold(script: Script, taker: TurnTaker, item: Item, transcript: Transcript, results: list[CheckResult], answers: Answers) -> None:
    """Hold the conversation of `item`, appending to `transcript` and `results` as it goes, so that both are there when it breaks.

    Raises:
        ProviderError: a provider call failed.
        ToolLoopStopped: a turn's tool loop ran into a limit.
    """
    for index, turn in enumerate(script.turns):
        transcript.begin_turn()
        await taker.take(transcript, turn, perturbed(turn.content, item.variables))
        if turn.checks:
            evidence = transcript.evidence()
            found = await evaluate(turn.checks, evidence, Scope.TURN, index, answers)
            results.extend(found)
            if not all(result.passed for result in found):
                break
    if script.checks:
        results.extend(await evaluate(script.checks, transcript.evidence(), Scope.CONVERSATION, None, answers))


async def evaluate(checks: Sequence[CompiledCheck], evidence: Evidence, scope: Scope, turn: int | None, answers: Answers) -> list[CheckResult]:
    """Return the result of each check, in their order. Questions of different checks are asked at once. Never raises for what a check does."""
    begun = [check.begin(evidence, scope, turn) for check in checks]
    if all(isinstance(found, CheckResult) for found in begun):
        return begun  # type: ignore[return-value]
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
