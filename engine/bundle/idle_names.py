"""Names in checks and policies that nothing in the bundle answers to: what forbids them can only hold, so its author is told.

A warning, never an error: a model may well invent a tool, and to forbid that is a fair check. Must not read files.
"""

from collections.abc import Collection, Iterator, Sequence

from engine.bundle.model import Assertion, Bundle, Location, PromptConfig, Scenario
from engine.bundle.problems import Problems, did_you_mean, shown

FORBIDDING = frozenset(
    ("tools_not_called", "tools_not_called_session", "tool_args_excluded_session", "tools_not_called_with_args", "no_tool_errors", "tool_no_repeat")
)
"""Checks that hold when the tools they name are never called."""

_ABOUT_A_STATE = frozenset(("state_is", "transitioned_to", "spoke_in_state"))

_TOOL_KEYS = ("tool_names", "tools", "tool_name")


def checks_of(scenario: Scenario) -> tuple[Assertion, ...]:
    """Return all checks of a scenario, its turns' first."""
    return (*(check for turn in scenario.turns for check in turn.assertions), *scenario.conversation_assertions)


def check_names(bundle: Bundle, scenario: Scenario, prompts: Sequence[PromptConfig], problems: Problems) -> None:
    """Add a warning for each guardrail, state and tool that a scenario or one of the `prompts` that it comes to names in vain."""
    if prompts:
        _check_guardrails(scenario, prompts, problems)
    if bundle.arena.workflow is not None:
        _check_states(scenario, bundle.arena.workflow.states, problems)
    for place, who, name in dict.fromkeys((*_forbidden_tools(scenario), *_blocked_tools(scenario, prompts), *_disturbed_tools(scenario))):
        if name not in bundle.tools and "__" not in name:
            hint = did_you_mean(name, bundle.tools, otherwise="tools are")
            problems.warning(place, f"{who} the tool '{shown(name)}', which the bundle does not have", hint)


def _check_guardrails(scenario: Scenario, prompts: Sequence[PromptConfig], problems: Problems) -> None:
    names = [validator.type for prompt in prompts for validator in prompt.validators if validator.enabled]
    whose = f"prompt '{prompts[0].id}' does not have" if len(prompts) == 1 else "none of its prompts has"
    for check in checks_of(scenario):
        wanted = check.params.get("validator_type", check.params.get("validator")) if check.check == "guardrail_triggered" else None
        if isinstance(wanted, str) and wanted not in names:
            hint = did_you_mean(wanted, names, otherwise="its guardrails are")
            problems.warning(check.location, f"guardrail_triggered asks for '{shown(wanted)}', which {whose}", hint)


def _check_states(scenario: Scenario, states: Collection[str], problems: Problems) -> None:
    for check in checks_of(scenario):
        wanted = check.params.get("state") if check.check in _ABOUT_A_STATE else None
        if isinstance(wanted, str) and wanted not in states:
            hint = did_you_mean(wanted, states, otherwise="its states are")
            problems.warning(check.location, f"check '{check.check}' asks for state '{shown(wanted)}', which the workflow does not have", hint)


def _forbidden_tools(scenario: Scenario) -> Iterator[tuple[Location, str, str]]:
    for check in checks_of(scenario):
        if check.check not in FORBIDDING:
            continue
        for key in _TOOL_KEYS:
            value = check.params.get(key, ())
            for name in [value] if isinstance(value, str) else value if isinstance(value, list) else []:
                yield check.location, f"check '{check.check}' is about", str(name)


def _blocked_tools(scenario: Scenario, prompts: Sequence[PromptConfig]) -> Iterator[tuple[Location, str, str]]:
    for policy in (scenario.tool_policy, *(prompt.tool_policy for prompt in prompts)):
        if policy is not None:
            yield from ((policy.location, "the tool policy blocks", name) for name in policy.blocklist)


def _disturbed_tools(scenario: Scenario) -> Iterator[tuple[Location, str, str]]:
    for turn in scenario.turns:
        yield from ((turn.location, "consent_overrides is about", name) for name in turn.consent_overrides)
        if turn.chaos is not None:
            yield from ((turn.location, "chaos disturbs", failure.tool) for failure in turn.chaos.tool_failures)
