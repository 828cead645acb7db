"""The author's own words to a judge: which prompt of the bundle stands in for a rubric's task, and its variables.

Owns the order of precedence: `system_prompt` of the check, its `prompt`, the arena's judge_defaults.prompt (where the rubric takes it), the rubric.
Used when a bundle is loaded, to say what is wrong, and when a judge is asked. Must not know providers.
"""

from collections.abc import Mapping

from engine.bundle.model import Bundle, PromptConfig
from engine.bundle.variables import render
from engine.errors import BundleInvalid
from engine.judging.briefs import EXHIBITS
from engine.judging.rubrics import RUBRICS

_CRITERIA, _RUBRIC = "criteria", "rubric"


def find_prompt(bundle: Bundle, name: str) -> PromptConfig | None:
    """Return the prompt that the arena's prompt_configs know by this id or, failing that, that has this task_type."""
    return next((prompt for prompt in bundle.prompts.values() if prompt.id == name), bundle.prompts.get(name))


def prompt_name(bundle: Bundle, rubric_name: str, prompt: str, instructions: str) -> str:
    """Return the name of the prompt that holds for a check, "" for the rubric's own task or the check's `system_prompt`."""
    if prompt or instructions:
        return prompt
    return bundle.arena.judge_prompt if RUBRICS[rubric_name].takes_default_prompt else ""


def judge_task(bundle: Bundle, prompt: PromptConfig, criteria: str, rubric: str, exhibits: Mapping[str, str]) -> tuple[str, bool, bool]:
    """Fill in a judge's prompt.

    `exhibits` are the texts for the placeholders of `EXHIBITS`. Returns the text, and whether it holds the criteria and the rubric already.

    Raises:
        BundleInvalid: a required variable or a placeholder has no value.
    """
    values = {**bundle.prompt_vars.get(prompt.task_type, {})}
    for variable in prompt.variables:
        if isinstance(variable.default, str):
            values.setdefault(variable.name, variable.default)
    given = {_CRITERIA: criteria, _RUBRIC: rubric}
    missing = [v.name for v in prompt.variables if v.required and not {**values, **given, **exhibits}.get(v.name)]
    text, unresolved = render(prompt.system_template, {**values, **given, **exhibits})
    if names := list(dict.fromkeys((*missing, *unresolved))):
        raise BundleInvalid(
            f"{prompt.location}: cannot ask a judge with prompt '{prompt.id}': no value for {', '.join(repr(name) for name in names)}",
            hint=f"a judge's prompt may use criteria and rubric of the check, {', '.join(EXHIBITS)}, and its own defaults",
        )
    raw = prompt.system_template.replace(" ", "")
    return text, "{{criteria}}" in raw, "{{rubric}}" in raw
