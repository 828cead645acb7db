"""What a turn does to tool calls: a user who declines a client's tool, and failures that are injected (promptkit-format.md 2.2, 6.4).

Owns who is refused, delayed or let through, and the words that a model then reads. What is left to chance is decided by the item and the number of the
call, so that equal runs meet equal failures. Must not know why a tool is called.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from engine.bundle.model import Bundle, ToolFailure, Turn
from engine.providers.port import ToolSpec
from engine.tools.port import CallableTool, CallFailed, ToolAnswer
from foundation.clock import Clock

SLOW_S: Final = 2.0
"""So much longer a call takes whose tool is made slow."""

_DECLINED: Mapping[str, str] = {
    "": "the user declined it",
    "error": "the user declined it",
    "fallback": "the user declined it; go on without it",
    "retry": "the user declined it; say why it is needed, and ask again",
}
_UNANSWERED = "the user did not answer whether it may be used"
_CHANCES: Final = 2**64


@dataclass(frozen=True, slots=True)
class Refused:
    """Stands for a tool that answers with a failure."""

    spec: ToolSpec
    kind: str
    reason: str
    waits: bool = False

    async def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Refuse."""
        del arguments
        raise CallFailed(self.kind, self.reason)


@dataclass(frozen=True, slots=True)
class Slowed:
    """A tool that takes its time."""

    tool: CallableTool
    clock: Clock
    waits: bool = True

    @property
    def spec(self) -> ToolSpec:
        """Return the tool as a model is offered it."""
        return self.tool.spec

    async def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Answer a call, later."""
        await self.clock.sleep(SLOW_S)
        return await self.tool.call(arguments)


@dataclass(frozen=True, slots=True)
class Interference:
    """What one turn does. `declined` are tools, each with the words of its refusal; `failures` are in the order in which they are looked at."""

    declined: Mapping[str, str]
    failures: tuple[ToolFailure, ...]

    def on(self, tool: CallableTool, clock: Clock, chance: str) -> CallableTool:
        """Return who answers in place of `tool`. `chance` is the text that decides what is left to chance: the same one decides the same."""
        name = tool.spec.name
        if name in self.declined:
            return Refused(tool.spec, "approval", self.declined[name])
        failure = next((found for found in self.failures if found.tool == name and _strikes(found, chance)), None)
        if failure is None:
            return tool
        if failure.mode == "slow":
            return Slowed(tool, clock)
        default = "it timed out" if failure.mode == "timeout" else "it failed"
        return Refused(tool.spec, "execution", failure.message or f"tool '{name}' cannot be called: {default}")


def interference_of(turn: Turn, bundle: Bundle) -> Interference | None:
    """Return what a turn does to tool calls, None when it does nothing."""
    declined = {name: _refusal(bundle, name, answer) for name, answer in turn.consent_overrides.items() if answer != "grant"}
    failures = turn.chaos.tool_failures if turn.chaos else ()
    return Interference(declined, failures) if declined or failures else None


def _refusal(bundle: Bundle, name: str, answer: str) -> str:
    if answer == "timeout":
        why = _UNANSWERED
    else:
        client = bundle.tools[name].client if name in bundle.tools else None
        consent = (client or {}).get("consent") or {}
        why = _DECLINED.get(str(consent.get("decline_strategy") or ""), _DECLINED[""])
    return f"tool '{name}' may not be called: {why}"


def _strikes(failure: ToolFailure, chance: str) -> bool:
    """Say whether a failure happens; a probability of 0 or none is always."""
    if not 0 < failure.probability < 1:
        return True
    digest = hashlib.sha256(f"{chance}/{failure.tool}/{failure.mode}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / _CHANCES < failure.probability
