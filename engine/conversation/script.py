"""A scenario made ready to be held many times: prompt assembled, tools, guardrails and checks compiled, once.

Owns the step from a bundle's values to what a conversation needs at each turn. A script is immutable and shared by all conversations. Must not
know providers' protocols, nor what becomes of results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.bundle.model import Assertion, Bundle, PromptConfig, Scenario, Tool, ToolPolicy, Turn
from engine.bundle.variables import merge_variables, missing_variables, render
from engine.checks.compiled import Bounds, CompiledCheck, condition
from engine.checks.registry import prepare_check
from engine.conversation.guardrails import Guardrails, compile_guardrails
from engine.conversation.tool_loop import Limits
from engine.errors import BundleInvalid
from engine.providers.port import ToolSpec
from engine.tools.toolbox import Toolbox, tool_problem


@dataclass(frozen=True, slots=True)
class ScriptTurn:
    """A scripted user message and the checks after its answer. `content` may hold `{key}` of a perturbation."""

    content: str
    streaming: bool
    checks: tuple[CompiledCheck, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """Everything of a scenario that does not depend on the item."""

    scenario: str
    system: str
    offered: tuple[ToolSpec, ...]
    toolbox: Toolbox
    tool_choice: str
    limits: Limits
    guardrails: Guardrails
    turns: tuple[ScriptTurn, ...]
    checks: tuple[CompiledCheck, ...]


def compile_script(bundle: Bundle, scenario: Scenario) -> Script:
    """Compile a scenario.

    Raises:
        BundleInvalid: its prompt is missing or keeps a placeholder without a value, a tool's schema or template is none, or a check is not
            what the loader let pass.
    """
    prompt = bundle.prompts.get(scenario.task_type)
    if prompt is None:
        raise BundleInvalid(
            f"{scenario.location}: cannot hold scenario '{scenario.id}': no prompt has task_type '{scenario.task_type}'",
            hint=f"known task types: {', '.join(bundle.prompts) or 'none'}",
        )
    tools = offered_tools(prompt, bundle.tools)
    for tool in tools:
        problem = tool_problem(tool)
        if problem:
            raise BundleInvalid(f"{tool.location}: cannot offer tool '{tool.name}': {problem}")
    policy = merge_policy(prompt.tool_policy, scenario.tool_policy)
    try:
        return Script(
            scenario=scenario.id,
            system=assemble_prompt(prompt, bundle.prompt_vars.get(scenario.task_type, {}), scenario),
            offered=tuple(ToolSpec(tool.name, tool.description, tool.input_schema) for tool in tools),
            toolbox=Toolbox(tools, policy.blocklist),
            tool_choice=policy.tool_choice or "auto",
            limits=_limits(policy),
            guardrails=compile_guardrails(prompt),
            turns=tuple(_turn(turn, scenario) for turn in scenario.turns),
            checks=tuple(compile_check(assertion) for assertion in scenario.conversation_assertions),
        )
    except ValueError as error:
        raise BundleInvalid(f"{scenario.location}: cannot hold scenario '{scenario.id}': {error}") from error


def assemble_prompt(prompt: PromptConfig, arena_vars: Mapping[str, str], scenario: Scenario) -> str:
    """Return the system prompt of a scenario.

    Raises:
        BundleInvalid: a required variable or a placeholder has no value. (The reference goes on with a generic prompt, without tools and
            guardrails; that would change the question silently.)
    """
    values = merge_variables(prompt, arena_vars, scenario)
    system, unresolved = render(prompt.system_template, values)
    missing = list(dict.fromkeys((*missing_variables(prompt, values), *unresolved)))
    if missing:
        names = ", ".join(f"'{name}'" for name in missing)
        raise BundleInvalid(
            f"{prompt.location}: cannot assemble the prompt of scenario '{scenario.id}': no value for {names}",
            hint="set it in the scenario's variables, the arena's vars, or as a default of the prompt's variable",
        )
    return system


def offered_tools(prompt: PromptConfig, tools: Mapping[str, Tool]) -> list[Tool]:
    """Return the tools that a prompt offers, in the arena's order: those its `allowed_tools` name, exactly or by a trailing `*`."""
    exact = {name for name in prompt.allowed_tools if not name.endswith("*")}
    prefixes = tuple(name[:-1] for name in prompt.allowed_tools if name.endswith("*"))
    return [tool for name, tool in tools.items() if name in exact or (prefixes and name.startswith(prefixes))]


def merge_policy(prompt: ToolPolicy | None, scenario: ToolPolicy | None) -> ToolPolicy:
    """Return the tool policy that holds: the scenario's, and where it says nothing the prompt's."""
    first, second = scenario or ToolPolicy(), prompt or ToolPolicy()

    def pick(key: str) -> Any:
        own = getattr(first, key)
        return getattr(second, key) if own is None or own == () else own

    keys = ("tool_choice", "max_tool_calls_per_turn", "max_total_tool_calls", "blocklist", "max_rounds", "max_cost_usd", "max_identical_tool_calls")
    return ToolPolicy(**{key: pick(key) for key in keys})


def _limits(policy: ToolPolicy) -> Limits:
    defaults = Limits()
    return Limits(
        max_rounds=policy.max_rounds or defaults.max_rounds,
        max_cost_usd=defaults.max_cost_usd if policy.max_cost_usd is None else policy.max_cost_usd,
        max_identical_calls=policy.max_identical_tool_calls or defaults.max_identical_calls,
    )


def _turn(turn: Turn, scenario: Scenario) -> ScriptTurn:
    if turn.role != "user":
        raise BundleInvalid(f"{turn.location}: cannot hold a turn of role '{turn.role}': self-play is not built yet")
    texts = [part.text for part in turn.parts if part.type == "text"]
    if len(texts) != len(turn.parts):
        raise BundleInvalid(f"{turn.location}: cannot say a message with media: media are not built yet")
    return ScriptTurn(
        content="\n".join(texts) if texts else turn.content,
        streaming=scenario.streaming if turn.streaming is None else turn.streaming,
        checks=compile_checks(turn.assertions),
    )


def compile_checks(assertions: Sequence[Assertion]) -> tuple[CompiledCheck, ...]:
    """Compile checks in their order.

    Raises:
        ValueError: one is not what the loader let pass.
    """
    return tuple(compile_check(assertion) for assertion in assertions)


def compile_check(assertion: Assertion) -> CompiledCheck:
    """Compile one check.

    Raises:
        ValueError: it is not what the loader let pass.
    """
    when = assertion.when
    applies = None
    if when is not None:
        applies = condition(
            tool_called=when.tool_called,
            tool_called_pattern=when.tool_called_pattern,
            any_tool_called=when.any_tool_called,
            min_tool_calls=when.min_tool_calls,
        )
    return CompiledCheck(
        type=assertion.type,
        evaluate=prepare_check(assertion.check, assertion.params),
        bounds=Bounds(assertion.min_score, assertion.max_score),
        message=assertion.message,
        applies=applies,
        name=assertion.check if assertion.type == "assertion" else "",
    )
