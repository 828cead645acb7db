"""What must hold between the files of a bundle.

Owns the rules that no single file can show: prompts of scenarios, variables, roles, personas, tools. Which providers a scenario needs depends on
the job and is `engine.plan`'s. Must not read files.
"""

from collections.abc import Iterator

from engine.bundle.check_reader import PROGRAM_CHECK
from engine.bundle.idle_names import checks_of
from engine.bundle.judge_names import check_judges
from engine.bundle.model import Bundle, Scenario, Tool, Turn
from engine.bundle.model_names import check_models, check_relevance
from engine.bundle.problems import Problems, did_you_mean, shown
from engine.bundle.prompt_checks import check_overrides, check_prompts, check_roles
from engine.bundle.scenario_prompts import is_named, tool_patterns_of

IMPLICIT_NAMESPACES = ("a2a__", "workflow__", "memory__", "skill__", "image__", "video__")
"""Tools that are offered without being listed (promptkit-format.md 6.1)."""


def check_bundle(bundle: Bundle, problems: Problems) -> None:
    """Add every problem between the files of `bundle`, but no echo of a file that could not be read whole."""
    broken = problems.files_with_errors()
    scenarios = [scenario for scenario in bundle.scenarios.values() if scenario.file not in broken]
    for scenario in scenarios:
        _check_turns(scenario, problems)
        _check_conditions(scenario, problems)
    if broken <= {scenario.file for scenario in bundle.scenarios.values()} - {bundle.arena_file}:
        for scenario in scenarios:
            check_prompts(bundle, scenario, problems)
            check_roles(bundle, scenario, problems)
        _check_tools(bundle, problems)
    if bundle.scenarios and bundle.evals:
        first = next(iter(bundle.evals.values()))
        problems.warning(
            first.location,
            f"evals do not run beside scenarios ({len(bundle.evals)} in the arena), unless they are named",
            f"`arena eval --scenario {first.id}`",
        )
    check_overrides(bundle, problems)
    _check_outside_names(bundle, problems)
    _check_groups(bundle, problems)
    _check_judges(bundle, problems)
    check_judges(bundle, problems)
    check_models(bundle, problems)
    check_relevance(bundle, problems)
    _check_roles_of_providers(bundle, problems)


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
    for prompt in bundle.prompts.values():
        for pattern in prompt.allowed_tools:
            if any(is_named(name, (pattern,)) for name in bundle.tools) or _may_come_from_elsewhere(bundle, pattern):
                continue
            if pattern.endswith("*"):
                problems.warning(prompt.location, f"prompt '{prompt.id}' allows '{pattern}', which no tool of the bundle matches")
                continue
            hint = did_you_mean(pattern, bundle.tools, otherwise="tools are") or "name its file in the arena's tools"
            problems.error(prompt.location, f"prompt '{prompt.id}' allows the tool '{pattern}', which the bundle does not have", hint)
    _check_skills(bundle, problems)
    patterns = {pattern for prompt in bundle.prompts.values() for pattern in prompt.allowed_tools}
    patterns.update(pattern for scenario in bundle.scenarios.values() for pattern in tool_patterns_of(bundle, scenario))
    for tool in bundle.tools.values():
        if not is_named(tool.name, patterns):
            problems.note(tool.location, f"no prompt allows the tool '{tool.name}'")
        elif tool.mode == "mock":
            _check_mock_tool(tool, problems)
        else:
            _check_outside_tool(tool, problems)


def _check_skills(bundle: Bundle, problems: Problems) -> None:
    for skill in bundle.arena.skills:
        for pattern in skill.allowed_tools:
            if not any(is_named(name, (pattern,)) for name in bundle.tools):
                hint = did_you_mean(pattern, bundle.tools, otherwise="tools are")
                problems.warning(skill.location, f"skill '{skill.name}' allows the tool '{shown(pattern)}', which the bundle does not have", hint)


def _may_come_from_elsewhere(bundle: Bundle, pattern: str) -> bool:
    from_server = "mcp_servers" in bundle.arena.uses and (pattern.startswith("mcp__") or pattern == "*")
    return from_server or pattern.startswith(IMPLICIT_NAMESPACES)


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


def _check_outside_tool(tool: Tool, problems: Problems) -> None:
    """A tool that answers outside must say how it is called, with schemas and templates that can be read."""
    from engine.tools.toolbox import tool_problem  # noqa: PLC0415 - as above

    if (key := {"live": "http", "exec": "exec"}.get(tool.mode, "")) and getattr(tool, key) is None:
        problems.error(tool.location, f"cannot use tool '{tool.name}': its mode is {tool.mode}, and it has no '{key}'")
    elif fault := tool_problem(tool):
        problems.error(tool.location, f"cannot use tool '{tool.name}': {fault}")


def _check_outside_names(bundle: Bundle, problems: Problems) -> None:
    """Servers and agents have names of their own, and a server's allowed tool names a server that is there."""
    for what, named in (("MCP server", bundle.arena.mcp_servers), ("A2A agent", bundle.arena.a2a_agents)):
        seen: set[str] = set()
        for each in named:
            if each.name in seen:
                problems.error(each.location, f"duplicate {what} '{each.name}'")
            seen.add(each.name)
    for check in (check for scenario in bundle.scenarios.values() for check in checks_of(scenario) if check.check == PROGRAM_CHECK):
        if str(check.params.get("eval")) not in bundle.arena.programs:
            hint = did_you_mean(str(check.params.get("eval")), bundle.arena.programs, otherwise="it has")
            problems.error(
                check.location, f"the arena's runtime.evals has no program '{check.params.get('eval')}'", hint or "add it to runtime.evals"
            )
    servers = {server.name for server in bundle.arena.mcp_servers}
    for prompt in bundle.prompts.values():
        for pattern in prompt.allowed_tools:
            server = pattern.removeprefix("mcp__").partition("__")[0]
            if pattern.startswith("mcp__") and "__" in pattern[5:] and servers and server not in servers:
                hint = did_you_mean(server, servers, otherwise="servers are")
                problems.error(prompt.location, f"prompt '{prompt.id}' allows '{pattern}', and there is no MCP server '{server}'", hint)


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


_LIVE_AUDIO = ("tts", "stt", "video")


def _check_roles_of_providers(bundle: Bundle, problems: Problems) -> None:
    for provider in bundle.providers.values():
        if provider.role in _LIVE_AUDIO:
            problems.note(provider.location, f"provider '{provider.id}' of role {provider.role} has no part in a run")


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
