"""Variables of a prompt: which values a scenario gives it, and what of its template stays without one.

Owns the merge order and the placeholder rule (promptkit-format.md 2.8, 5.2): plain replacement of `{{name}}`, spaces inside allowed, up to ten
passes so that values may hold placeholders.
"""

import re
from collections.abc import Mapping

from engine.bundle.model import PromptConfig, Scenario
from engine.errors import BundleInvalid

MAX_PASSES = 10
MAX_CHARACTERS = 1024 * 1024
REGION = "default"
"""The reference's only region when none is asked for; templates may say `{{region}}`."""

_PLACEHOLDER = re.compile(r"\{\{([^{}\n]{1,200})\}\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")


def merge_variables(prompt: PromptConfig, arena_vars: Mapping[str, str], scenario: Scenario) -> dict[str, str]:
    """Return the values for a prompt's placeholders; later sources win: region, the prompt's fragments, the arena's vars, the scenario's variables.

    The scenario's context metadata and then the prompt's defaults fill what is still missing. A default counts only when it is text.
    """
    values = {"region": REGION, **{fragment.name: fragment.text for fragment in prompt.fragments}, **arena_vars, **scenario.variables}
    for key, value in scenario.context_metadata.items():
        values.setdefault(key, value)
    for variable in prompt.variables:
        if isinstance(variable.default, str):
            values.setdefault(variable.name, variable.default)
    return values


def template_for(prompt: PromptConfig, model: str) -> str:
    """Return a prompt's template for a model: the one that its `model_overrides` give it, their suffix on a line of its own."""
    override = prompt.model_overrides.get(model)
    if override is None:
        return prompt.system_template
    template, suffix = override.system_template or prompt.system_template, override.system_template_suffix
    joint = "\n" if suffix and not template.endswith("\n") and not suffix.startswith("\n") else ""
    return f"{template}{joint}{suffix}"


def render(template: str, values: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Replace the placeholders of a template; returns the text and the names that stayed without a value, each once, in order.

    Raises:
        BundleInvalid: values that hold each other grow the text beyond 1 MiB.
    """
    text = template
    for _ in range(MAX_PASSES):
        replaced = _replace(text, values)
        if replaced == text:
            break
        text = replaced
    return text, tuple(name for name in _left(text) if _NAME.match(name))


def literal_braces(text: str) -> tuple[str, ...]:
    """Return what stands in double braces of a rendered template and is no name, so that it stays as it is: conditions, loops, JSON."""
    return tuple(name for name in _left(text) if not _NAME.match(name))


def _left(text: str) -> dict[str, None]:
    return dict.fromkeys(name.strip(" \t") for name in _PLACEHOLDER.findall(text))


def _replace(text: str, values: Mapping[str, str]) -> str:
    room = MAX_CHARACTERS

    def value(match: re.Match[str]) -> str:
        nonlocal room
        found = values.get(match.group(1).strip(" \t"), match.group())
        room -= len(found)
        if room < 0:
            raise BundleInvalid(f"cannot fill in the template: it grows beyond {MAX_CHARACTERS:,} characters", hint="its variables hold each other")
        return found

    return _PLACEHOLDER.sub(value, text)


def missing_variables(prompt: PromptConfig, values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the required variables of a prompt that have no value."""
    return tuple(variable.name for variable in prompt.variables if variable.required and variable.name not in values)
