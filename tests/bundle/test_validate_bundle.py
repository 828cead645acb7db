"""`validate_bundle` says everything at once and never raises."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from engine.permissions import ALLOWING_CODE
from engine.validate import Problem, Severity, validate_bundle

Write = Callable[[Mapping[str, str | bytes | None]], Path]
ARENA = """kind: Arena
metadata: {name: small}
spec:
  prompt_configs: [{id: assistant, file: prompts/assistant.yaml}]
  providers: [{file: providers/mock.yaml}]
  scenarios: [{file: scenarios/hello.yaml}]
"""


def test_flawless_bundle(small: Path) -> None:
    """There is nothing to say of a bundle that is right."""
    assert validate_bundle(small) == []


def test_missing_bundle(tmp_path: Path) -> None:
    """A directory without an arena file is one error."""
    assert validate_bundle(tmp_path / "nothing") == [
        Problem(
            Severity.ERROR,
            "config.arena.yaml",
            0,
            "cannot find arena file 'config.arena.yaml' in the bundle",
            f"there is no directory '{tmp_path / 'nothing'}'",
        )
    ]


def test_errors_warnings_and_notes(write: Write) -> None:
    """Errors, keys without effect and what is not built come together, by file and line."""
    provider = "kind: Provider\nmetadata: {name: mock}\nspec:\n  type: cartesia\n  http_transport: {max_idle_conns_per_host: 2}\n  pricing: {input_cost_per_1k: 1, output_cost_per_1k: 1}\n"
    scenario = "kind: Scenario\nmetadata: {name: hello}\nspec:\n  task_type: assistant\n  mode: x\n  turns: [{role: user, content: Hello, assertions: [{type: json_valid}]}]\n  voice: v\n"
    problems = validate_bundle(
        write({"config.arena.yaml": ARENA + "  deploy: {provider: x}\n", "providers/mock.yaml": provider, "scenarios/hello.yaml": scenario})
    )
    assert [(p.severity.value, f"{p.file}:{p.line}") for p in problems] == [
        ("note", "config.arena.yaml:7"),
        ("note", "providers/mock.yaml:2"),
        ("note", "providers/mock.yaml:5"),
        ("note", "scenarios/hello.yaml:2"),
        ("warning", "scenarios/hello.yaml:5"),
    ]


def test_a_program_is_noted_with_its_remedy(write: Write) -> None:
    """That programs need the operator's leave is no error of the bundle; the note says how it is given."""
    tool = "kind: Tool\nmetadata: {name: t}\nspec: {mode: exec, description: d, input_schema: {type: object}, exec: {command: ./t}}\n"
    prompt = "kind: PromptConfig\nmetadata: {name: a}\nspec: {task_type: assistant, system_template: Be kind., allowed_tools: [t]}\n"
    files = {"config.arena.yaml": ARENA + "  tools: [{file: t.yaml}]\n", "t.yaml": tool, "prompts/assistant.yaml": prompt}
    (note,) = (problem for problem in validate_bundle(write(files)) if "./t" in problem.message)
    assert (note.severity, note.hint) == (Severity.NOTE, ALLOWING_CODE)


@pytest.mark.parametrize(
    ("path", "recording", "expected"),
    [
        pytest.param("talk.yaml", None, "talk.yaml: cannot find 'talk.yaml': no such file in the bundle", id="not there"),
        pytest.param("talk.yaml", "messages: [{role: asistant, content: b}]", "message 1 has role 'asistant'", id="a role that is none"),
        pytest.param("*.yml", None, "no file matches '*.yml'", id="a pattern of nothing"),
    ],
)
def test_a_recording_that_cannot_be_used_is_a_warning(write: Write, path: str, recording: str | None, expected: str) -> None:
    """What an eval would meet when it runs is told before."""
    evaluation = f"kind: Eval\nmetadata: {{name: saved}}\nspec: {{recording: {{path: '{path}', type: transcript}}}}\n"
    files = {"config.arena.yaml": ARENA + "  evals: [{file: saved.yaml}]\n", "saved.yaml": evaluation, "talk.yaml": recording}
    (problem,) = (problem for problem in validate_bundle(write(files)) if "cannot run eval 'saved'" in problem.message)
    assert (problem.severity, problem.file, problem.line) == (Severity.WARNING, "saved.yaml", 2)
    assert expected in problem.message


def test_plan_problems_are_errors(write: Write) -> None:
    """What only the matrix shows, such as an unknown provider of a scenario, is an error with its line."""
    scenario = "kind: Scenario\nmetadata: {name: hello}\nspec: {task_type: assistant, providers: [mok], conversation_assertions: [{type: json_valid}], turns: [{role: user, content: Hello}]}\n"
    assert validate_bundle(write({"scenarios/hello.yaml": scenario})) == [
        Problem(
            Severity.ERROR, "scenarios/hello.yaml", 2, "cannot run scenario 'hello': the bundle does not have provider 'mok'", "did you mean 'mock'?"
        )
    ]


def test_all_errors_are_listed(write: Write) -> None:
    """Validation lists more errors than a run's message holds."""
    scenario = "kind: Scenario\nmetadata: {name: hello}\nspec:\n" + "".join(f"  wrong{n}: 1\n" for n in range(30))
    assert len(validate_bundle(write({"scenarios/hello.yaml": scenario}))) >= 30
