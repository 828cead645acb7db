"""What must hold between the files of a bundle.

Owns the rules that no single file can show: prompts of scenarios, variables, roles, personas, tools. Which providers a scenario needs depends on
the job and is `engine.plan`'s. Must not read files.
"""

from collections.abc import Iterator

from engine.bundle.idle_names import check_names, checks_of
from engine.bundle.judge_names import check_judges
from engine.bundle.model import Bundle, PromptConfig, Scenario, Tool, Turn
from engine.bundle.model_names import check_models
from engine.bundle.problems import Problems, did_you_mean, shown
from engine.bundle.variables import literal_braces, merge_variables, missing_variables, render
from engine.errors import BundleInvalid

IMPLICIT_NAMESPACES = ("a2a__", "workflow__", "memory__", "skill__", "image__", "video__")
"""Tools that are offered without being listed (promptkit-format.md 6.1)."""

_ENGINES = ("workflow", "compositions", "pack_file")
"""Arena keys that bring prompts of their own."""


def check_bundle(bundle: Bundle, problems: Problems) -> None:
    """Add every problem between the files of `bundle`, but no echo of a file that could not be read whole."""
    broken = problems.files_with_errors()
    scenarios = [scenario for scenario in bundle.scenarios.values() if scenario.file not in broken]
    for scenario in scenarios:
        _check_turns(scenario, problems)
        _check_conditions(scenario, problems)
    if broken <= {scenario.file for scenario in bundle.scenarios.values()} - {bundle.arena_file}:
        for scenario in scenarios:
            _check_prompt(bundle, scenario, problems)
            _check_roles(bundle, scenario, problems)
        _check_tools(bundle, problems)
    if bundle.scenarios and bundle.evals:
        place = next(iter(bundle.evals.values())).location
        problems.warning(place, f"evals do not run ({len(bundle.evals)} in the arena): checking saved conversations is not supported yet")
    _check_groups(bundle, problems)
    _check_judges(bundle, problems)
    check_judges(bundle, problems)
    check_models(bundle, problems)


def _check_prompt(bundle: Bundle, scenario: Scenario, problems: Problems) -> None:
    has_engine = any(key in bundle.arena.uses for key in _ENGINES)
    if not scenario.task_type:
        if not has_engine:
            problems.error(scenario.location, f"scenario '{scenario.id}' has no task_type", "task_type names the prompt that the scenario talks to")
        return
    prompt = bundle.prompts.get(scenario.task_type)
    if prompt is not None:
        _check_variables(bundle, scenario, prompt, problems)
        check_names(bundle, scenario, prompt, problems)
    elif "pack_file" not in bundle.arena.uses:
        hint = did_you_mean(scenario.task_type, bundle.prompts, otherwise="the prompts' task types are") or "name a prompt in prompt_configs"
        problems.error(scenario.location, f"no prompt has the task_type '{scenario.task_type}' of scenario '{scenario.id}'", hint)


def _check_variables(bundle: Bundle, scenario: Scenario, prompt: PromptConfig, problems: Problems) -> None:
    values = merge_variables(prompt, bundle.prompt_vars[prompt.task_type], scenario)
    missing = missing_variables(prompt, values)
    for name in missing:
        problems.error(
            prompt.location,
            f"required variable '{name}' of prompt '{prompt.id}' has no value in scenario '{scenario.id}'",
            f"set it in the scenario's variables, or in vars of prompt_configs '{prompt.id}'",
        )
    try:
        text, unresolved = render(prompt.system_template, values)
    except BundleInvalid as error:
        problems.error(prompt.location, error.message, error.hint)
        return
    for braces in literal_braces(text):
        problems.warning(
            prompt.location,
            f"'{{{{{shown(braces)}}}}}' in the template of prompt '{prompt.id}' stays as it is: it is no variable's name",
            "templates have variables only, no conditions and no loops",
        )
    typed = {variable.name for variable in prompt.variables if variable.default is not None and not isinstance(variable.default, str)}
    for name in unresolved:
        if name in missing:
            continue
        hint = "its default is not text: put it into quotes" if name in typed else did_you_mean(name, values, otherwise="variables with a value are")
        problems.error(prompt.location, f"'{{{{{name}}}}}' in the template of prompt '{prompt.id}' has no value in scenario '{scenario.id}'", hint)


def _check_turns(scenario: Scenario, problems: Problems) -> None:
    if not scenario.turns:
        problems.error(scenario.location, f"scenario '{scenario.id}' has no turns", "it would pass without asking anything")
    for turn in scenario.turns:
        if turn.role == "user" and not turn.content and not turn.parts:
            problems.error(turn.location, "a user's turn has neither content nor parts")
        for part in turn.parts:
            if part.type == "text" and not part.text:
                problems.error(part.location, "a text part has no text")
        for key in _idle_keys(turn):
            problems.warning(turn.location, f"'{key}' of a turn has no effect: {_IDLE_KEYS[key]}")
        if turn.max_turns is not None and turn.max_turns < turn.turns:
            problems.error(turn.location, f"cannot read the turn: max_turns {turn.max_turns} is below turns {turn.turns}")
    if not checks_of(scenario):
        problems.note(scenario.location, f"scenario '{scenario.id}' has no checks: it passes whatever is said")
    _check_perturbations(scenario, problems)


_IDLE_KEYS = {
    "content": "its parts are said instead",
    "persona": "a user's turn is scripted",
    "turns": "a user's turn is scripted, and said once",
    "max_turns": "a user's turn is scripted, and said once",
}


def _idle_keys(turn: Turn) -> Iterator[str]:
    if turn.content and turn.parts:
        yield "content"
    if turn.role == "user":
        set_keys = {"persona": bool(turn.persona), "turns": turn.turns != 1, "max_turns": turn.max_turns is not None}
        yield from (key for key, is_set in set_keys.items() if is_set)


def _check_roles(bundle: Bundle, scenario: Scenario, problems: Problems) -> None:
    roles = [role.id for role in bundle.arena.roles]
    for turn in scenario.turns:
        if turn.role in roles:
            _check_self_play(bundle, turn, problems)
        elif turn.role != "user":
            problems.error(turn.location, f"unknown role '{turn.role}' of a turn", did_you_mean(turn.role, ["user", *roles], otherwise="roles are"))


def _check_self_play(bundle: Bundle, turn: Turn, problems: Problems) -> None:
    if not turn.persona:
        problems.error(turn.location, f"the turn of role '{turn.role}' names no persona", "add persona, an id of self_play.personas")
    elif turn.persona not in bundle.personas:
        hint = did_you_mean(turn.persona, bundle.personas, otherwise="personas are")
        problems.error(turn.location, f"unknown persona '{turn.persona}' of a turn", hint)


def _check_perturbations(scenario: Scenario, problems: Problems) -> None:
    seen: dict[str, tuple[str, ...]] = {}
    texts = [text for turn in scenario.turns for text in _texts(turn)]
    for turn in scenario.turns:
        for key, values in turn.perturbations.items():
            if seen.setdefault(key, values) != values:
                problems.error(turn.location, f"perturbation '{key}' has other values in an earlier turn", "use another key, or the same values")
            elif not any(f"{{{key}}}" in text for text in texts):
                problems.error(turn.location, f"perturbation '{key}' changes nothing: no turn of the scenario says '{{{key}}}'")


def _texts(turn: Turn) -> Iterator[str]:
    if not turn.parts:
        yield turn.content
    for part in turn.parts:
        yield part.text


def _check_tools(bundle: Bundle, problems: Problems) -> None:
    offered: set[str] = set()
    for prompt in bundle.prompts.values():
        for pattern in prompt.allowed_tools:
            matching = [name for name in bundle.tools if name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1]))]
            offered.update(matching)
            if matching or _may_come_from_elsewhere(bundle, pattern):
                continue
            if pattern.endswith("*"):
                problems.warning(prompt.location, f"prompt '{prompt.id}' allows '{pattern}', which no tool of the bundle matches")
                continue
            hint = did_you_mean(pattern, bundle.tools, otherwise="tools are") or "name its file in the arena's tools"
            problems.error(prompt.location, f"prompt '{prompt.id}' allows the tool '{pattern}', which the bundle does not have", hint)
    for tool in bundle.tools.values():
        if tool.name not in offered:
            problems.note(tool.location, f"no prompt allows the tool '{tool.name}'")
        elif tool.mode == "mock":
            _check_mock_tool(tool, problems)


def _may_come_from_elsewhere(bundle: Bundle, pattern: str) -> bool:
    from_server = "mcp_servers" in bundle.arena.uses and (pattern.startswith("mcp__") or pattern == "*")
    return from_server or pattern.startswith(IMPLICIT_NAMESPACES) or "pack_file" in bundle.arena.uses


def _check_mock_tool(tool: Tool, problems: Problems) -> None:
    """A tool that this engine answers itself must have schemas and a template that it can read."""
    from engine.tools.toolbox import result_problem, tool_problem  # noqa: PLC0415 - only bundles that have tools pay for it

    if fault := tool_problem(tool):
        problems.error(tool.location, f"cannot use tool '{tool.name}': {fault}")
    elif fault := result_problem(tool):
        problems.warning(tool.location, f"every call of tool '{tool.name}' fails: {fault}", "change its mock_result or its output_schema")
    if tool.mock_template and tool.mock_result is not None:
        problems.warning(tool.location, f"'mock_result' of tool '{tool.name}' has no effect: its mock_template answers")
    for key, value in (("http", tool.http), ("exec", tool.exec), ("client", tool.client)):
        if value is not None:
            problems.note(tool.location, f"'{key}' of tool '{tool.name}' has no effect: its mode is mock")


def _check_conditions(scenario: Scenario, problems: Problems) -> None:
    for check in checks_of(scenario):
        if check.when is None or not check.when.tool_called_pattern:
            continue
        from foundation.patterns import compile_pattern  # noqa: PLC0415 - RE2 only where there is a pattern

        try:
            compile_pattern(check.when.tool_called_pattern)
        except ValueError as error:
            problems.error(check.location, f"cannot read `when.tool_called_pattern`: {error}")


def _check_groups(bundle: Bundle, problems: Problems) -> None:
    groups = sorted({provider.group for provider in bundle.providers.values()})
    for scenario in bundle.scenarios.values():
        if scenario.providers and (scenario.required_capabilities or scenario.provider_group != "default"):
            key = "required_capabilities" if scenario.required_capabilities else "provider_group"
            problems.warning(scenario.location, f"'{key}' of scenario '{scenario.id}' has no effect: it lists its providers")
        if scenario.providers or scenario.provider_group in groups or scenario.provider_group == "default":
            continue
        message = f"no provider is in the group '{scenario.provider_group}' of scenario '{scenario.id}': it runs with all of them"
        problems.warning(scenario.location, message, did_you_mean(scenario.provider_group, groups, otherwise="groups are"))


def _check_judges(bundle: Bundle, problems: Problems) -> None:
    seen: set[str] = set()
    for judge in bundle.arena.judges:
        if judge.name in seen:
            problems.error(judge.location, f"duplicate judge '{judge.name}'")
        seen.add(judge.name)
    roles: set[str] = set()
    for role in bundle.arena.roles:
        if role.id in roles or role.id == "user":
            problems.error(role.location, f"duplicate self-play role '{role.id}'", "'user' is the scripted one" if role.id == "user" else "")
        roles.add(role.id)
