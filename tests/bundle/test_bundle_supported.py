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
        pytest.param({A: ARENA + "  a2a_agents: [{name: a}]\n"}, f"{A}:7: {WHO}A2A agents are not supported yet", id="A2A"),
        pytest.param({A: ARENA + "  pack_file: pack.json\n"}, f"{A}:7: {WHO}compiled packs are not supported yet", id="pack_file"),
        pytest.param({A: ARENA + "  runtime: {hooks: {}}\n"}, f"{A}:7: {WHO}hooks and other runtime settings are not supported yet", id="hooks"),
        pytest.param({A: ARENA + "  state_store: {type: redis}\n"}, f"{A}:7: {WHO}the state store 'redis' is not supported yet", id="state store"),
        pytest.param({S: scenario("  duplex: {timeout: 5s}\n")}, f"{S}:2: {WHO}duplex conversations are not supported yet", id="duplex"),
        pytest.param({S: scenario("  voice: v\n")}, f"{S}:2: {WHO}voices are not supported yet", id="voice"),
        pytest.param(
            {C: PROMPT + "  validators: [{type: rest_eval}]\n"},
            f"{C}:6: {WHO}cannot apply guardrail 'rest_eval': checks by an outside service are not built yet",
            id="a guardrail by an outside service",
        ),
        pytest.param(
            {
                A: ARENA + "  judges: [{name: j, provider: vendor}]\n  provider_specs: {vendor: {type: gemini}}\n",
                C: PROMPT + "  validators: [{type: toxicity}]\n",
            },
            f"{A}:8: cannot run with provider 'vendor': providers of type gemini are not supported yet (--mock-provider replaces them)",
            id="a judge by a vendor that is not built",
        ),
        pytest.param(
            {C: PROMPT + "  allowed_tools: [t]\n", A: ARENA + f"  tool_specs: {{t: {TOOL}mode: exec}}}}\n"},
            f"{A}:7: {WHO}tools of mode exec ('t') are not supported yet",
            id="exec tools",
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
        pytest.param({A: ARENA + f"  tool_specs: {{t: {TOOL}mode: exec}}}}\n"}, id="exec tools that no prompt allows"),
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
