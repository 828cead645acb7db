"""What a plan needs that this engine does not do yet, refused by name before anything runs.

Owns the list. It looks only at the scenarios and providers that a plan has: what the rest of the bundle needs is no reason to refuse. As features
land, lines leave this file.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from engine.bundle.judge_names import asking_of, judges_needed
from engine.bundle.model import Bundle, Location, Scenario, Tool
from engine.bundle.model_names import embedder_of, models_needed
from engine.bundle.outside_names import programs_needed, servers_needed
from engine.bundle.problems import MAX_REPORTED
from engine.bundle.scenario_prompts import is_named, tool_patterns_of
from engine.errors import CodeNotAllowed, FeatureNotSupported
from engine.permissions import ALLOWING_CODE
from engine.providers.specs import is_built, platform_of

if TYPE_CHECKING:
    from engine.plan import Plan

Need = tuple[Location, str]
"""Where something is asked for, and what it is, as a sentence."""

_WITHOUT_VENDOR = ("mock", "replay", "agent")
"""Types that no vendor's protocol stands behind."""

_ARENA_KEYS: Mapping[str, str] = {
    "skills of its pack": "skills of a compiled pack are",
    "agents of its pack": "agents of a compiled pack are",
}
"""Arena keys that change every scenario of the arena."""


def check_supported(bundle: Bundle, plan: "Plan") -> None:
    """Refuse a plan that needs what is not built.

    Raises:
        FeatureNotSupported: the message has a line, `file:line: …`, for each of the first 20 needs.
        CodeNotAllowed: it needs programs of the bundle, which the operator does not let run.
    """
    if needs := _listed(needs_of(bundle, plan)):
        raise FeatureNotSupported(needs, hint="choose other scenarios or providers of the bundle")
    if not plan.permissions.code and (programs := _listed(code_of(bundle, plan))):
        raise CodeNotAllowed(programs, hint=ALLOWING_CODE)


def code_of(bundle: Bundle, plan: "Plan") -> Iterator[Need]:
    """Yield the programs that a plan's scenarios need, each as a sentence that says that none is allowed."""
    for scenario in (bundle.scenarios[ident] for ident in plan.scenarios if ident in bundle.scenarios):
        for place, what in programs_needed(bundle, scenario):
            yield place, f"cannot run scenario '{scenario.id}': {what}, and programs of this bundle are not allowed to run"


def _listed(needs: Iterable[Need]) -> str:
    found = list(dict.fromkeys(needs))
    lines = [f"{place}: {what}" for place, what in found[:MAX_REPORTED]]
    if len(found) > MAX_REPORTED:
        lines.append(f"and {len(found) - MAX_REPORTED} more")
    return "\n".join(lines)


def needs_of(bundle: Bundle, plan: "Plan") -> Iterator[Need]:
    """Yield everything that the scenarios, the tested providers and those that serve them need and that is not built."""
    for ident, spec in plan.providers.items():
        yield from _provider(bundle, ident, spec)
    yield from _embeddings(bundle, plan)
    for ident in plan.scenarios:
        subject = bundle.subject(ident)
        kind = "scenario" if isinstance(subject, Scenario) else "eval"
        yield from ((place, f"cannot run {kind} '{ident}': {what} not supported yet") for place, what in _arena_needs(bundle))
        if isinstance(subject, Scenario):
            yield from _scenario(bundle, subject)
    for ident in sorted(serving_of(bundle, plan.scenarios)):
        if ident in plan.serving:
            yield from _provider(bundle, ident, plan.serving[ident])


def serving_of(bundle: Bundle, scenarios: Iterable[str]) -> set[str]:
    """Return the ids of the providers that judge, label, embed or play the user for these scenarios."""
    chosen = [bundle.subject(ident) for ident in scenarios]
    providers = {judge.name: judge.provider for judge in bundle.arena.judges}
    roles = {role.id: role.provider for role in bundle.arena.roles}
    found = {roles[turn.role] for subject in chosen if isinstance(subject, Scenario) for turn in subject.turns if turn.role in roles}
    for _, kind, params in asking_of(bundle, chosen):
        found.update(providers[name] for name in judges_needed(bundle, kind, params) if name in providers)
    return found | models_needed(bundle)


def _embeddings(bundle: Bundle, plan: "Plan") -> Iterator[Need]:
    """Yield the context policies that ask for an embedding model which nothing stands for: likeness by words is for mocks only."""
    real = {cell.scenario for cell in plan.cells if plan.providers.get(cell.provider, {}).get("type") != "mock"}
    for scenario in (bundle.scenarios[ident] for ident in plan.scenarios if ident in real and ident in bundle.scenarios):
        policy = scenario.context_policy
        if policy is not None and policy.strategy == "relevance" and not embedder_of(bundle, policy):
            yield policy.location, f"cannot run scenario '{scenario.id}': its strategy relevance needs a provider of role embedding"


def _provider(bundle: Bundle, ident: str, spec: Mapping[str, Any]) -> Iterator[Need]:
    kind, platform = str(spec.get("type", "")), platform_of(spec)
    if kind not in _WITHOUT_VENDOR and not is_built(spec):
        own = bundle.providers.get(ident)
        place = own.location if own else bundle.arena.location
        role = spec.get("role", "llm")
        what = f"type {kind}{f' on {platform}' if platform else ''}{f' and role {role}' if role != 'llm' else ''}"
        yield place, f"cannot run with provider '{ident}': providers of {what} are not supported yet (--mock-provider replaces them)"


def _scenario(bundle: Bundle, scenario: Scenario) -> Iterator[Need]:
    who = f"cannot run scenario '{scenario.id}'"
    for place, what in _scenario_needs(bundle, scenario):
        yield place, f"{who}: {what} not supported yet"
    patterns = tool_patterns_of(bundle, scenario)
    for tool in bundle.tools.values():
        if is_named(tool.name, patterns):
            yield from _tool(who, tool)


def _arena_needs(bundle: Bundle) -> Iterator[Need]:
    """Yield what changes everything that an arena runs."""
    for key, what in _ARENA_KEYS.items():
        if key in bundle.arena.uses:
            yield bundle.arena.uses[key], what
    for key in bundle.arena.runtime:
        yield bundle.arena.uses["runtime"], f"runtime.{key} is"
    if bundle.arena.state_store != "memory":
        yield bundle.arena.uses["state_store"], f"the state store '{bundle.arena.state_store}' is"


def _scenario_needs(bundle: Bundle, scenario: Scenario) -> Iterator[Need]:
    yield from _outside_needs(bundle, scenario)
    if scenario.duplex is not None:
        yield scenario.location, "duplex conversations are"
    if scenario.voice:
        yield scenario.location, "voices are"


def _outside_needs(bundle: Bundle, scenario: Scenario) -> Iterator[Need]:
    for name, program in bundle.arena.programs.items():
        if program.sandbox is not None:
            yield program.location, f"a sandbox of the format (eval '{name}') is"
        if program.server:
            yield program.location, f"runtime server (eval '{name}') is"
    for server in servers_needed(bundle, scenario):
        if server.source:
            yield server.location, f"the source '{server.source}' of MCP server '{server.name}' is"


def _tool(who: str, tool: Tool) -> Iterator[Need]:
    if not tool.is_mocked and tool.mode not in ("live", "exec"):
        yield tool.location, f"{who}: tools of mode {tool.mode} ('{tool.name}') are not supported yet"
    if tool.mode == "exec" and tool.exec is not None and tool.exec.sandbox is not None:
        yield tool.exec.location, f"{who}: sandboxes of the format (tool '{tool.name}') are not supported yet"
