"""Hold one conversation: its turns in order, the checks after each, and the conversation's checks at the end (promptkit-format.md 2.3).

All checks of a turn are evaluated. A turn with a failed check is the last one; the conversation's checks then see what there is. A turn that
could not be taken ends everything: an outage is not a score, so nothing is checked after it.
"""

import re
from collections.abc import Iterable

from engine.conversation.script import Script
from engine.conversation.transcript import Transcript
from engine.conversation.turn import TurnTaker
from engine.items import CheckResult, Item, Scope


async def hold(script: Script, taker: TurnTaker, item: Item, transcript: Transcript, results: list[CheckResult]) -> None:
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
            found = [check.run(evidence, Scope.TURN, index) for check in turn.checks]
            results.extend(found)
            if not all(result.passed for result in found):
                break
    if script.checks:
        evidence = transcript.evidence()
        results.extend(check.run(evidence, Scope.CONVERSATION, None) for check in script.checks)


def perturbed(content: str, variables: Iterable[tuple[str, str]]) -> str:
    """Return `content` with `{key}` replaced by the item's value, for each of its variables; what a value says is not replaced again."""
    values = {f"{{{key}}}": value for key, value in variables}
    if not values:
        return content
    return re.sub("|".join(map(re.escape, values)), lambda match: values[match.group()], content)
