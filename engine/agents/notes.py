"""What a plan says of its agents: which of a bundle's words do not reach them. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from engine.bundle.model import Bundle

if TYPE_CHECKING:
    from engine.plan import Cell

Specs = Mapping[str, Mapping[str, Any]]


def agent_notes(bundle: Bundle, cells: "Iterable[Cell]", providers: Specs, serving: Specs) -> Iterator[str]:
    """Yield a sentence for each agent of a plan's specs, and for each of its cells whose scenario asks for what an agent cannot do."""
    tested, servants = _agents(providers), _agents(serving)
    for ident in tested:
        yield f"provider '{ident}' is an agent: it answers by its own prompt, tools, guardrails and settings, and is told nothing of the bundle's"
    for ident in servants:
        yield f"provider '{ident}' is an agent: as a judge or a user its instructions are part of what it is told first, and sampling does not reach it"
    for name, ident in ((cell.scenario, cell.provider) for cell in cells if cell.provider in tested):
        scenario = bundle.scenarios.get(name)
        if scenario is not None and any(turn.consent_overrides or turn.chaos for turn in scenario.turns):
            yield f"{scenario.location}: consent and failures of tools in scenario '{name}' do not reach agent '{ident}': it calls its own tools"


def _agents(specs: Specs) -> list[str]:
    return [ident for ident, spec in specs.items() if spec.get("type") == "agent"]
