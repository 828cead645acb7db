"""What the selected scenarios need and is not built is refused by name; what only others need is not."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from engine.bundle import check_supported, load_bundle
from engine.errors import FeatureNotSupported
from engine.plan import PlanRequest, make_plan

Write = Callable[[Mapping[str, str | bytes | None]], Path]

ARENA = """kind: Arena
metadata: {name: small}
spec:
  prompt_configs: [{id: assistant, file: prompts/assistant.yaml}]
  providers: [{file: providers/mock.yaml}]
  scenarios: [{file: scenarios/hello.yaml}]
"""
PROMPT = "kind: PromptConfig\nmetadata: {name: assistant}\nspec:\n  task_type: assistant\n  system_template: x\n"
TOOL = "{description: d, input_schema: {type: object}, "


def scenario(rest: str = "", turn: str = "content: Hello") -> str:
    """Return a scenario file with more keys."""
    return f"kind: Scenario\nmetadata: {{name: hello}}\nspec:\n  task_type: assistant\n  turns: [{{role: user, {turn}}}]\n{rest}"


WHO = "cannot run scenario 'hello': "
A, C, S = "config.arena.yaml", "prompts/assistant.yaml", "scenarios/hello.yaml"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {A: ARENA + "  pack_file: p.json\n", "p.json": '{"id": "p", "version": "1", "prompts": {},\n "agents": {}}'},
            f"p.json:2: {WHO}agents of a compiled pack are not supported yet",
            id="agents of a pack",
        ),
        pytest.param({A: ARENA + "  runtime: {hooks: {}}\n"}, f"{A}:7: {WHO}runtime.hooks is not supported yet", id="hooks"),
        pytest.param({A: ARENA + "  state_store: {type: redis}\n"}, f"{A}:7: {WHO}the state store 'redis' is not supported yet", id="state store"),
        pytest.param({S: scenario("  duplex: {timeout: 5s}\n")}, f"{S}:2: {WHO}duplex conversations are not supported yet", id="duplex"),
        pytest.param({S: scenario("  voice: v\n")}, f"{S}:2: {WHO}voices are not supported yet", id="voice"),
        pytest.param(
            {
                A: ARENA + "  judges: [{name: j, provider: vendor}]\n  provider_specs: {vendor: {type: imagen}}\n",
                C: PROMPT + "  validators: [{type: toxicity}]\n",
            },
            f"{A}:8: cannot run with provider 'vendor': providers of type imagen are not supported yet (--mock-provider replaces them)",
            id="a judge by a vendor that is not built",
        ),
        pytest.param(
            {C: PROMPT + "  allowed_tools: [t]\n", A: ARENA + f"  tool_specs: {{t: {TOOL}mode: local}}}}\n"},
            f"{A}:7: {WHO}tools of mode local ('t') are not supported yet",
            id="local tools",
        ),
        pytest.param(
            {C: PROMPT + "  allowed_tools: [t]\n", A: ARENA + f"  tool_specs: {{t: {TOOL}mode: exec, exec: {{command: c, sandbox: s}}}}}}\n"},
            f"{A}:7: {WHO}sandboxes of the format (tool 't') are not supported yet",
            id="a sandbox of the format",
        ),
        pytest.param(
            {C: PROMPT + "  allowed_tools: [mcp__m__x]\n", A: ARENA + "  mcp_servers: [{name: m, source: docker}]\n"},
            f"{A}:7: {WHO}the source 'docker' of MCP server 'm' is not supported yet",
            id="an MCP server in a container",
        ),
        pytest.param(
            {C: PROMPT + "  allowed_tools: [t]\n", A: ARENA + f"  tool_specs: {{t: {TOOL}mode: exec, exec: {{command: ./t, args: [x]}}}}}}\n"},
            f"{A}:7: {WHO}tool 't' is the command './t x', and programs of this bundle are not allowed to run",
            id="an exec tool",
        ),
        pytest.param(
            {C: PROMPT + "  allowed_tools: [mcp__m__*]\n", A: ARENA + "  mcp_servers: [{name: m, command: npx, args: [srv]}]\n"},
            f"{A}:7: {WHO}MCP server 'm' is the command 'npx srv', and programs of this bundle are not allowed to run",
            id="an MCP server over stdio",
        ),
        pytest.param(
            {A: ARENA + "  runtime: {evals: {mine: {command: ./e}}}\n", S: scenario("  conversation_assertions: [{type: mine}]\n")},
            f"{A}:7: {WHO}check 'exec' is the command './e', and programs of this bundle are not allowed to run",
            id="a program that evaluates",
        ),
        pytest.param(
            {A: ARENA + "  runtime: {evals: {mine: {command: ./e, sandbox: s}}}\n"},
            f"{A}:7: {WHO}a sandbox of the format (eval 'mine') is not supported yet",
            id="a sandbox of a program that evaluates",
        ),
        pytest.param(
            {A: ARENA + "  runtime: {evals: {mine: {command: ./e, runtime: server}}}\n"},
            f"{A}:7: {WHO}runtime server (eval 'mine') is not supported yet",
            id="a program that evaluates as a server",
        ),
    ],
)
def test_refused(write: Write, changes: dict[str, str | bytes | None], message: str) -> None:
    """A selected scenario that needs what is not built is refused with file, line and name."""
    bundle = load_bundle(write(changes))
    with pytest.raises(FeatureNotSupported) as caught:
        check_supported(bundle, make_plan(bundle, PlanRequest()))
    assert caught.value.message.splitlines()[0] == message


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({S: scenario("  streaming: true\n")}, id="streaming of a mock"),
        pytest.param({S: scenario(turn="parts: [{type: text, text: Hello}]")}, id="text parts"),
        pytest.param({A: ARENA + "  state_store: {type: memory}\n"}, id="the memory state store"),
        pytest.param({A: ARENA + "  mcp_servers: [{name: m, command: c}]\n"}, id="MCP servers that no prompt uses"),
        pytest.param(
            {
                A: ARENA + f"  tool_specs: {{t: {TOOL}mode: exec, exec: {{command: c}}}}}}\n",
            },
            id="exec tools that no prompt allows",
        ),
        pytest.param({A: ARENA + "  judges: [{name: j, provider: mock}]\n"}, id="judges that no check asks"),
        pytest.param({C: PROMPT + "  validators: [{type: toxicity, enabled: false}]\n"}, id="a guardrail that is off"),
        pytest.param({C: PROMPT + "  validators: [{type: pii_leakage}]\n"}, id="pii_leakage"),
        pytest.param(
            {
                A: ARENA.replace("scenarios: [", "scenarios: [{file: other.yaml}, "),
                "other.yaml": scenario("  voice: v\n").replace("name: hello", "name: zz"),
            },
            id="another scenario's needs",
        ),
    ],
)
def test_not_refused(write: Write, changes: dict[str, str | bytes | None]) -> None:
    """What the selected scenarios do not need is no reason to refuse them."""
    bundle = load_bundle(write(changes))
    check_supported(bundle, make_plan(bundle, PlanRequest(only_scenarios=("hello",))))
