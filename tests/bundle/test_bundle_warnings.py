"""What a bundle says and nothing does is said, with its file and line."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from engine.bundle import load_bundle
from engine.validate import Severity, validate_bundle

Write = Callable[[Mapping[str, str | bytes | None]], Path]

S, P, C, A, T = "scenarios/hello.yaml", "providers/mock.yaml", "prompts/assistant.yaml", "config.arena.yaml", "tools/search.yaml"
ARENA = """kind: Arena
metadata: {name: small}
spec:
  prompt_configs: [{id: assistant, file: prompts/assistant.yaml}]
  providers: [{file: providers/mock.yaml}]
  scenarios: [{file: scenarios/hello.yaml}]
"""
PROMPT = "kind: PromptConfig\nmetadata: {name: assistant}\nspec:\n  task_type: assistant\n"
PROVIDER = "kind: Provider\nmetadata: {name: mock}\nspec:\n  type: mock\n"
TOOL = "kind: Tool\nmetadata: {name: search}\nspec:\n  description: d\n  input_schema: {type: object}\n  mode: mock\n"
WITH_TOOL = {A: ARENA + "  tools: [{file: tools/search.yaml}]\n", C: PROMPT + "  system_template: x\n  allowed_tools: [search]\n"}


def scenario(rest: str = "", turn: str = "content: Hello") -> str:
    """Return a scenario file with more keys."""
    return f"kind: Scenario\nmetadata: {{name: hello}}\nspec:\n  task_type: assistant\n  turns: [{{role: user, {turn}}}]\n{rest}"


CHECKED = "content: Hello, assertions: [{type: contains, params: {patterns: [hi]}}]"
TRIGGERED = "content: Hello, assertions: [{type: guardrail_triggered, params: {validator: lenght, should_trigger: false}}]"


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        pytest.param(
            {S: scenario(turn="content: Hello, persona: p")}, f"{S}:5: 'persona' of a turn has no effect: a user's turn is scripted", id="persona"
        ),
        pytest.param(
            {S: scenario(turn="content: Hello, turns: 3")},
            f"{S}:5: 'turns' of a turn has no effect: a user's turn is scripted, and said once",
            id="turns",
        ),
        pytest.param(
            {S: scenario(turn="content: Hello, max_turns: 3")},
            f"{S}:5: 'max_turns' of a turn has no effect: a user's turn is scripted, and said once",
            id="max_turns",
        ),
        pytest.param(
            {S: scenario(turn="content: Hello, parts: [{type: text, text: Hi}]")},
            f"{S}:5: 'content' of a turn has no effect: its parts are said instead",
            id="content beside parts",
        ),
        pytest.param(
            {S: scenario("  providers: [mock]\n  required_capabilities: [vision]\n")},
            f"{S}:2: 'required_capabilities' of scenario 'hello' has no effect: it lists its providers",
            id="capabilities beside a list",
        ),
        pytest.param(
            {S: scenario("  providers: [mock]\n  provider_group: fast\n")},
            f"{S}:2: 'provider_group' of scenario 'hello' has no effect: it lists its providers",
            id="a group beside a list",
        ),
        pytest.param(
            {S: scenario(turn=TRIGGERED), C: PROMPT + "  system_template: x\n  validators: [{type: length, params: {max: 9}}]\n"},
            f"{S}:5: guardrail_triggered asks for 'lenght', which prompt 'assistant' does not have",
            id="a check of a guardrail that is not there",
        ),
        pytest.param(
            {C: PROMPT + "  system_template: 'Hi {{#if vip}}'\n"},
            f"{C}:2: '{{{{#if vip}}}}' in the template of prompt 'assistant' stays as it is: it is no variable's name",
            id="a condition in a template",
        ),
        pytest.param(
            {C: PROMPT + "  system_template: x\n  allowed_tools: [sea*]\n"},
            f"{C}:2: prompt 'assistant' allows 'sea*', which no tool of the bundle matches",
            id="a wildcard of nothing",
        ),
        pytest.param(
            {**WITH_TOOL, T: TOOL + "  mock_result: a\n  mock_template: b\n"},
            f"{T}:2: 'mock_result' of tool 'search' has no effect: its mock_template answers",
            id="two answers of a tool",
        ),
        pytest.param(
            {**WITH_TOOL, T: TOOL + "  output_schema: {type: string}\n  mock_result: {a: 1}\n"},
            f"{T}:2: every call of tool 'search' fails: the result does not fit the tool's output schema: the value must be a string",
            id="a result that its own schema refuses",
        ),
        pytest.param(
            {**WITH_TOOL, T: TOOL, S: scenario("  tool_policy: {blocklist: [serach]}\n")},
            f"{S}:6: the tool policy blocks the tool 'serach', which the bundle does not have",
            id="a blocked tool that is not there",
        ),
        pytest.param(
            {**WITH_TOOL, T: TOOL, S: scenario("  conversation_assertions: [{type: tools_not_called, params: {tools: [search, delete]}}]\n")},
            f"{S}:6: check 'tools_not_called' is about the tool 'delete', which the bundle does not have",
            id="a forbidden tool that is not there",
        ),
        pytest.param(
            {
                A: ARENA + "  workflow: {version: 1, entry: start, states: {start: {prompt_task: assistant}}}\n",
                S: scenario("  conversation_assertions: [{type: state_is, params: {state: strat}}]\n"),
            },
            f"{S}:6: check 'state_is' asks for state 'strat', which the workflow does not have",
            id="a state that is not there",
        ),
        pytest.param(
            {P: PROVIDER + "  pricing: {input_cost_per_1k: 1, output_cost_per_1k: 1}\n"},
            f"{P}:5: 'pricing' of a mock has no effect: its tokens have one price, 0.01 USD for 1,000",
            id="a price of a mock",
        ),
        pytest.param(
            {
                A: ARENA + "  evals: [{file: saved.yaml}]\n",
                "saved.yaml": "kind: Eval\nmetadata: {name: saved}\nspec: {recording: {path: saved.json}}\n",
            },
            "saved.yaml:2: evals do not run beside scenarios (1 in the arena), unless they are named",
            id="evals beside scenarios",
        ),
        pytest.param(
            {"mock.yaml": "scenarios: {hello: {turns: {1: {content: hi, audio_file: a.pcm}}}}\n"},
            "mock.yaml:1: 'audio_file' of a mock turn has no effect: audio is not built yet",
            id="audio of a mock",
        ),
    ],
)
def test_no_effect_is_a_warning(write: Write, changes: dict[str, str], warning: str) -> None:
    """A key from which its author expects something, and gets nothing, is a warning of the run."""
    assert load_bundle(write(changes)).warnings == (warning,)


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        pytest.param({S: scenario()}, f"{S}:2", id="a scenario without checks"),
        pytest.param({C: PROMPT + "  system_template: x\n  media: {enabled: true}\n"}, f"{C}:6", id="media of a prompt"),
        pytest.param({C: PROMPT + "  system_template: x\n  variables: [{name: a, validation: {}}]\n"}, f"{C}:6", id="validation of a variable"),
        pytest.param({P: PROVIDER + "  base_url: https://a.example\n"}, f"{P}:5", id="an address of a mock"),
        pytest.param({**WITH_TOOL, T: TOOL + "  http: {url: https://a.example}\n"}, f"{T}:2", id="http of a mock tool"),
    ],
)
def test_documentation_is_a_note(write: Write, changes: dict[str, str], note: str) -> None:
    """What only documents, or belongs to another platform, is noted by validation and no warning of a run."""
    root = write(changes)
    assert load_bundle(root).warnings == ()
    assert [(p.severity, f"{p.file}:{p.line}") for p in validate_bundle(root)] == [(Severity.NOTE, note)]


def test_a_variable_of_any_name(write: Write) -> None:
    """A placeholder is replaced by the variable of exactly its name, also when that is no plain word."""
    prompt = PROMPT + "  system_template: 'Hi {{user name}} and {{ 1st }}'\n"
    root = write({C: prompt, S: scenario("  variables: {user name: Jo, 1st: Al}\n")})
    assert load_bundle(root).warnings == ()


def test_an_empty_key_is_not_given(write: Write) -> None:
    """A key of the arena that is left empty asks for nothing."""
    assert "workflow" not in load_bundle(write({A: ARENA + "  workflow:\n"})).arena.uses
