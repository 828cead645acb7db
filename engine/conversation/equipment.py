"""What conversations of a scenario have besides a prompt: workflow, skills, memory, compositions, as the arena and the scenario give them.

Owns which faculties a scenario gets, and their order. Must not know how any of them works.
"""

from collections.abc import Iterator

from engine.bundle.model import Bundle, Scenario
from engine.bundle.scenario_prompts import artifact_placeholders, own_composition
from engine.conversation.brief import NO_BRIEF, Brief, Setting, compile_brief
from engine.conversation.faculties import Enable
from engine.errors import BundleInvalid


def equip(bundle: Bundle, scenario: Scenario, model: str) -> tuple[tuple[Enable, ...], Brief]:
    """Return the faculties of a scenario's conversations, and the brief that they start with.

    Raises:
        BundleInvalid: a prompt cannot be assembled, or the scenario's task_type names no state of the workflow.
    """
    faculties = list(_faculties(bundle, scenario))
    workflow = bundle.arena.workflow
    if own := own_composition(bundle, scenario):
        from engine.conversation.composition import enable_composition  # noqa: PLC0415 - as below

        return (enable_composition(Setting(bundle, scenario, model), own), *faculties), NO_BRIEF
    if workflow is None:
        return tuple(faculties), compile_brief(Setting(bundle, scenario, model, extended=bool(faculties)), scenario.task_type, scenario.location)
    from engine.conversation.workflow_faculty import enable_workflow  # noqa: PLC0415 - only arenas that have one pay for it

    start = workflow.start(scenario.task_type)
    if start is None:
        raise BundleInvalid(
            f"{scenario.location}: cannot hold scenario '{scenario.id}': its task_type '{scenario.task_type}' names no state of the workflow",
            hint=f"states are: {', '.join(workflow.states)}",
        )
    setting = Setting(bundle, scenario, model, later=artifact_placeholders(bundle), extended=True)
    enable, brief = enable_workflow(setting, workflow, start)
    return (enable, *faculties), brief


def _faculties(bundle: Bundle, scenario: Scenario) -> Iterator[Enable]:
    if bundle.arena.skills:
        from engine.conversation.skills import enable_skills  # noqa: PLC0415 - as above

        yield enable_skills(bundle)
    if bundle.arena.memory or scenario.seed_memories:
        from engine.conversation.memory_faculty import enable_memory  # noqa: PLC0415 - as above

        yield enable_memory(scenario.seed_memories)
