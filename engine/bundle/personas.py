"""Personas: what a simulated user is told, from a persona's file and a scenario's values (promptkit-format.md 7.1).

Owns the variables of a persona's template. Must not know how a user's message comes about.
"""

from collections.abc import Mapping

from engine.bundle.model import NOTHING, Scenario
from engine.bundle.roles import Persona
from engine.bundle.variables import render

_NOT_TOLD = ("expressive", "characterization_rubric")
"""Traits of a style that are for voices and judges."""

REGIONS = {"_uk": "uk", "_au": "au", "_us": "us"}
"""Endings of a persona's id, and the region that each stands for."""


def persona_prompt(persona: Persona, scenario: Scenario, arena_vars: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return a persona's system prompt in a scenario, and the names that stay without a value, required variables included.

    Later sources win: what every persona has, its optional variables, the arena's vars of the scenario's prompt, the scenario's context and variables.
    Goals, constraints and style that the template does not place stand at its end, so that none of them is lost.

    Raises:
        BundleInvalid: values that hold each other grow the text beyond all bounds.
    """
    template = persona.system_template or persona.system_prompt
    values = {**_injected(persona, scenario), **persona.optional_vars, **arena_vars, **scenario.context_metadata, **scenario.variables}
    text, unresolved = render(template + _unplaced(persona, template), values)
    missing = (name for name in persona.required_vars if name not in values)
    return text, tuple(dict.fromkeys((*missing, *unresolved)))


def _injected(persona: Persona, scenario: Scenario) -> dict[str, str]:
    style: Mapping[str, object] = persona.style or NOTHING
    tags = style.get("friction_tags") or ()
    return {
        "persona_goals": _bullets(persona.goals),
        "persona_constraints": _bullets(persona.constraints),
        "verbosity": str(style.get("verbosity") or "medium"),
        "challenge_level": str(style.get("challenge_level") or "medium"),
        "friction_tags": ", ".join(map(str, tags)) if isinstance(tags, list | tuple) and tags else "none",
        "region": next((region for ending, region in REGIONS.items() if persona.id.endswith(ending)), "us"),
        "context_slot": "",
        "domain_hint": scenario.context_metadata.get("domain", "general"),
        "user_context": scenario.context_metadata.get("user_role", "user"),
    }


def _bullets(entries: tuple[str, ...]) -> str:
    return "\n".join(f"- {entry}" for entry in entries)


def _unplaced(persona: Persona, template: str) -> str:
    style: Mapping[str, object] = persona.style or NOTHING
    parts = []
    if persona.goals and "persona_goals" not in template:
        parts.append("Your goals:\n{{persona_goals}}")
    if persona.constraints and "persona_constraints" not in template:
        parts.append("Your constraints:\n{{persona_constraints}}")
    told = {"verbosity": "Verbosity", "challenge_level": "Challenge level", "friction_tags": "Friction"}
    lines = [f"{title}: {{{{{key}}}}}" for key, title in told.items() if style.get(key) and key not in template]
    lines += [f"{trait.replace('_', ' ').capitalize()}: {value}" for trait, value in style.items() if trait not in (*told, *_NOT_TOLD)]
    return "".join(f"\n\n{part}" for part in (*parts, "\n".join(lines)) if part)
