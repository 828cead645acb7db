"""What a model is told and may do at one moment: system prompt, tools, limits, guardrails; compiled once from a prompt and shared.

A scenario has one brief, with a workflow one for each state, with a composition one for each step. Must not know where a conversation stands.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from engine.bundle.model import Bundle, Location, PromptConfig, Scenario, Tool, ToolPolicy
from engine.bundle.outside_names import AGENT_PREFIX
from engine.bundle.variables import merge_variables, missing_variables, render, template_for
from engine.conversation.guardrails import Guardrails, compile_guardrails
from engine.conversation.tool_loop import Limits
from engine.errors import BundleInvalid
from engine.providers.port import ToolSpec
from engine.tools.episode import OutsideTool
from engine.tools.port import CallableTool
from engine.tools.toolbox import MockTool, Toolbox, tool_problem


@dataclass(frozen=True, slots=True)
class Brief:
    """A prompt, ready for one scenario and model. `open` names the placeholders of `system` that only a conversation fills (artifacts)."""

    system: str
    offered: tuple[ToolSpec, ...]
    toolbox: Toolbox
    tool_choice: str
    limits: Limits
    guardrails: Guardrails
    open: tuple[str, ...] = ()


NO_BRIEF = Brief("", (), Toolbox(()), "auto", Limits(), Guardrails())
"""That of a conversation in which no model answers by a prompt of its own."""


@dataclass(frozen=True, slots=True)
class Setting:
    """For whom briefs are compiled. `later` are the placeholders that conversations fill; `extended` says that they have tools besides the prompt's."""

    bundle: Bundle
    scenario: Scenario
    model: str = ""
    later: Collection[str] = ()
    extended: bool = False


def compile_brief(setting: Setting, task_type: str, place: Location) -> Brief:
    """Compile the prompt of `task_type`; `place` is who asks for it.

    Raises:
        BundleInvalid: there is no such prompt, it keeps a placeholder without a value, or a tool's schema or template is none.
        ValueError: a guardrail is not what the loader let pass.
    """
    bundle, scenario = setting.bundle, setting.scenario
    prompt = bundle.prompts.get(task_type)
    if prompt is None:
        raise BundleInvalid(
            f"{place}: cannot hold scenario '{scenario.id}': no prompt has task_type '{task_type}'",
            hint=f"known task types: {', '.join(bundle.prompts) or 'none'}",
        )
    tools = offered_tools(prompt, bundle.tools)
    policy = merge_policy(prompt.tool_policy, scenario.tool_policy)
    system = assemble_prompt(prompt, bundle.prompt_vars.get(task_type, {}), scenario, model=setting.model, later=setting.later)
    return Brief(
        system=system,
        offered=tuple(ToolSpec(tool.name, tool.description, tool.input_schema) for tool in tools),
        toolbox=Toolbox([answering_tool(tool) for tool in _reachable(prompt, tools, setting)], policy.blocklist),
        tool_choice=policy.tool_choice or "auto",
        limits=_limits(policy),
        guardrails=compile_guardrails(prompt),
        open=tuple(name for name in setting.later if f"{{{{{name}}}}}" in system),
    )


def assemble_prompt(prompt: PromptConfig, arena_vars: Mapping[str, str], scenario: Scenario, *, model: str = "", later: Collection[str] = ()) -> str:
    """Return the system prompt of a scenario for a model, the placeholders in `later` left in it.

    Raises:
        BundleInvalid: a required variable or a placeholder has no value. (The reference goes on with a generic prompt, without tools and
            guardrails; that would change the question silently.)
    """
    values = merge_variables(prompt, arena_vars, scenario)
    system, unresolved = render(template_for(prompt, model), values)
    missing = [name for name in dict.fromkeys((*missing_variables(prompt, values), *unresolved)) if name not in later]
    if missing:
        names = ", ".join(f"'{name}'" for name in missing)
        raise BundleInvalid(
            f"{prompt.location}: cannot assemble the prompt of scenario '{scenario.id}': no value for {names}",
            hint="set it in the scenario's variables, the arena's vars, or as a default of the prompt's variable",
        )
    return system


def offered_tools(prompt: PromptConfig, tools: Mapping[str, Tool]) -> list[Tool]:
    """Return the tools that a prompt offers, in the arena's order: those its `allowed_tools` name, exactly or by a trailing `*`, and agents."""
    return named_tools((*prompt.allowed_tools, f"{AGENT_PREFIX}*"), tools)


def named_tools(patterns: Collection[str], tools: Mapping[str, Tool]) -> list[Tool]:
    """Return the tools that `patterns` name, exactly or by a trailing `*`, in the arena's order."""
    exact = {name for name in patterns if not name.endswith("*")}
    prefixes = tuple(name[:-1] for name in patterns if name.endswith("*"))
    return [tool for name, tool in tools.items() if name in exact or (prefixes and name.startswith(prefixes))]


def merge_policy(prompt: ToolPolicy | None, scenario: ToolPolicy | None) -> ToolPolicy:
    """Return the tool policy that holds: the scenario's, and where it says nothing the prompt's."""
    first, second = scenario or ToolPolicy(), prompt or ToolPolicy()

    def pick(key: str) -> Any:
        own = getattr(first, key)
        return getattr(second, key) if own is None or own == () else own

    keys = ("tool_choice", "max_tool_calls_per_turn", "max_total_tool_calls", "blocklist", "max_rounds", "max_cost_usd", "max_identical_tool_calls")
    return ToolPolicy(**{key: pick(key) for key in keys})


def _reachable(prompt: PromptConfig, offered: list[Tool], setting: Setting) -> list[Tool]:
    """Return the tools that answer. A prompt that lists none forbids none: beside a workflow's or a skill's tools a model may call any of the bundle."""
    if prompt.allowed_tools or not setting.extended:
        return offered
    return [tool for tool in setting.bundle.tools.values() if tool.mode not in ("mcp", "local")]


def answering_tool(tool: Tool) -> CallableTool:
    """Return a tool of the bundle, ready to answer.

    Raises:
        BundleInvalid: its schemas or its template are none.
    """
    problem = tool_problem(tool)
    if problem:
        raise BundleInvalid(f"{tool.location}: cannot offer tool '{tool.name}': {problem}")
    return MockTool(tool) if tool.is_mocked else OutsideTool(ToolSpec(tool.name, tool.description, tool.input_schema))


def _limits(policy: ToolPolicy) -> Limits:
    defaults = Limits()
    return Limits(
        max_rounds=policy.max_rounds or defaults.max_rounds,
        max_cost_usd=defaults.max_cost_usd if policy.max_cost_usd is None else policy.max_cost_usd,
        max_identical_calls=policy.max_identical_tool_calls or defaults.max_identical_calls,
    )
