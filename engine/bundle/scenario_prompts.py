"""Which prompts a scenario talks to: its own, or those of the workflow's states and of the compositions that it runs through; and with which tools.

Owns these rules for everybody who checks a bundle. Must not know how a prompt is used.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engine.bundle.compositions import Composition
from engine.bundle.model import Bundle, Location, Scenario
from engine.bundle.workflows import State


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt that a scenario needs, by task type, and who names it. `later` are the placeholders that a conversation fills."""

    task_type: str
    place: Location
    later: tuple[str, ...] = ()


def prompts_of(bundle: Bundle, scenario: Scenario) -> list[Asked]:
    """Return the prompts that a scenario needs, each once, in the order in which it may come to them; whether or not the bundle has them."""
    found: dict[str, Asked] = {}
    for asked in _asked(bundle, scenario):
        found.setdefault(asked.task_type, asked)
    return list(found.values())


def states_of(bundle: Bundle, scenario: Scenario) -> list[State] | None:
    """Return the states of the workflow that a scenario can come to; None without a workflow, [] when its task_type names none."""
    workflow = bundle.arena.workflow
    if workflow is None:
        return None
    start = workflow.start(scenario.task_type)
    return [] if start is None else list(workflow.reachable(start.name))


def compositions_of(bundle: Bundle, scenario: Scenario) -> list[Composition]:
    """Return the compositions that a scenario can run, those of states or its own, as far as the bundle has them."""
    states = states_of(bundle, scenario)
    if states is not None:
        names = [state.composition for state in states if state.composition]
    else:
        own = own_composition(bundle, scenario)
        names = [own] if own else []
    return [bundle.arena.compositions[name] for name in names if name in bundle.arena.compositions]


def own_composition(bundle: Bundle, scenario: Scenario) -> str:
    """Return the composition that a scenario without a workflow runs: the one that its task_type names, or the only one when it names none; else ""."""
    compositions = bundle.arena.compositions
    if bundle.arena.workflow is not None or scenario.task_type in bundle.prompts:
        return ""
    if not scenario.task_type and len(compositions) == 1:
        return next(iter(compositions))
    return scenario.task_type if scenario.task_type in compositions else ""


def tool_patterns_of(bundle: Bundle, scenario: Scenario, *, listed: bool = False) -> list[str]:
    """Return the names, some with a trailing `*`, of the tools that a scenario's conversations may come to call.

    They are those that its prompts allow, that skills bring, and that steps name. A prompt that lists none forbids none where the model has tools
    of a workflow, of skills or of a memory beside the prompt's: then it is all of them, but with `listed` only what is written down counts.
    """
    extended = not listed and _is_extended(bundle, scenario)
    prompts = [bundle.prompts[asked.task_type] for asked in prompts_of(bundle, scenario) if asked.task_type in bundle.prompts]
    patterns = [pattern for prompt in prompts for pattern in prompt.allowed_tools or (("*",) if extended else ())]
    patterns += [pattern for skill in bundle.arena.skills for pattern in skill.allowed_tools]
    for composition in compositions_of(bundle, scenario):
        for step in composition.all_steps():
            patterns += [step.tool, *(step.tools or ())]
    return list(dict.fromkeys(pattern for pattern in patterns if pattern))


def _is_extended(bundle: Bundle, scenario: Scenario) -> bool:
    arena = bundle.arena
    return arena.workflow is not None or bool(arena.skills) or arena.memory or bool(scenario.seed_memories)


def is_named(name: str, patterns: Iterable[str]) -> bool:
    """Say whether a tool's name is among `patterns`, exactly or by a trailing `*`."""
    return any(name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for pattern in patterns)


def artifact_placeholders(bundle: Bundle) -> tuple[str, ...]:
    """Return the placeholders that the artifacts of the bundle's workflow fill in prompts."""
    states = bundle.arena.workflow.states.values() if bundle.arena.workflow is not None else ()
    return tuple(dict.fromkeys(f"artifacts.{artifact.name}" for state in states for artifact in state.artifacts))


def _asked(bundle: Bundle, scenario: Scenario) -> Iterator[Asked]:
    states, later = states_of(bundle, scenario), artifact_placeholders(bundle)
    if states is None and not own_composition(bundle, scenario) and scenario.task_type:
        yield Asked(scenario.task_type, scenario.location)
    for state in states or ():
        if state.prompt_task:
            yield Asked(state.prompt_task, state.location, later)
    for composition in compositions_of(bundle, scenario):
        for step in composition.all_steps():
            if step.prompt_task:
                yield Asked(step.prompt_task, step.location, later)
