"""What a loaded bundle holds: ids, paths, inline specs, checks, variables."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.bundle import load_bundle
from engine.bundle.arena_reader import ARENA_TABLE
from engine.bundle.eval_reader import EVAL_TABLE
from engine.bundle.evaluations import Evaluation
from engine.bundle.fields import Table
from engine.bundle.ignored import IGNORED, NOTED
from engine.bundle.model import PromptConfig, Scenario, Tool
from engine.bundle.prompt_reader import PERSONA_TABLE, PROMPT_TABLE, TOOL_TABLE
from engine.bundle.roles import Persona
from engine.bundle.scenario_reader import SCENARIO_TABLE
from engine.errors import ArenaFileNotFound

Write = Callable[[Mapping[str, str | bytes | None]], Path]

ARENA = """kind: Arena
metadata: {name: small}
spec:
  prompt_configs: [{id: assistant, file: prompts/assistant.yaml, vars: {name: Ann}}]
  providers: [{file: providers/mock.yaml, group: fast}]
  scenarios: [{file: scenarios/hello.yaml}]
"""


def scenario(rest: str) -> str:
    """Return a scenario file whose spec ends in `rest`."""
    return f"kind: Scenario\nmetadata: {{name: hello, labels: {{team: a}}}}\nspec:\n  id: other-name\n  task_type: assistant\n{rest}"


def test_ids_are_metadata_names(write: Write) -> None:
    """metadata.name is the id, whatever spec.id says."""
    bundle = load_bundle(write({"scenarios/hello.yaml": scenario("  turns: [{role: user, content: Hello}]\n")}))
    assert list(bundle.scenarios) == ["hello"]
    assert bundle.scenarios["hello"].labels == {"team": "a"}


def test_locations(small: Path) -> None:
    """A spec knows the file and line of its name; a check that of its own first line."""
    hello = load_bundle(small).scenarios["hello"]
    assert str(hello.location) == "scenarios/hello.yaml:3"
    assert str(hello.turns[0].assertions[0].location) == "scenarios/hello.yaml:10"


@pytest.mark.parametrize(
    ("where", "reference"),
    [
        pytest.param("mock-replies.yaml", "mock-replies.yaml", id="relative to the arena file, as the reference has it"),
        pytest.param("providers/mock-replies.yaml", "mock-replies.yaml", id="beside the provider's file"),
        pytest.param("mock-replies.yaml", "../mock-replies.yaml", id="up from the provider's file"),
    ],
)
def test_mock_config_is_found(write: Write, where: str, reference: str) -> None:
    """A mock file is looked up in the arena file's directory, then beside the provider that names it."""
    spec = f"kind: Provider\nmetadata: {{name: mock}}\nspec:\n  type: mock\n  additional_config: {{mock_config: {reference}}}\n"
    bundle = load_bundle(write({"providers/mock.yaml": spec, where: "defaultResponse: hi\n"}))
    assert bundle.providers["mock"].mock_config == where
    assert bundle.providers["mock"].spec["additional_config"]["mock_config"] == where
    assert bundle.resolve_path(where).read_text() == "defaultResponse: hi\n"


def test_arena_file_in_a_directory(write: Write) -> None:
    """An arena file may stand in a directory, named by it; its references are relative to it."""
    provider = "kind: Provider\nmetadata: {name: mock}\nspec: {type: mock, additional_config: {mock_config: ../mock.yaml}}\n"
    root = write({"evals/config.arena.yaml": ARENA.replace("file: ", "file: ../"), "providers/mock.yaml": provider})
    bundle = load_bundle(root, "evals")
    assert bundle.arena_file == "evals/config.arena.yaml"
    assert bundle.scenarios["hello"].file == "scenarios/hello.yaml"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("other.yaml", "cannot find arena file 'other.yaml' in the bundle", id="missing"),
        pytest.param("*.arena.yaml", "cannot load arena file '*.arena.yaml': it is a pattern", id="a glob"),
        pytest.param("../config.arena.yaml", "cannot load arena file '../config.arena.yaml': the path leaves the bundle", id="outside"),
        pytest.param("/etc/passwd", "cannot load arena file '/etc/passwd': the path leaves the bundle", id="absolute"),
    ],
)
def test_arena_file_not_found(small: Path, name: str, message: str) -> None:
    """An arena file is named exactly, inside the bundle."""
    with pytest.raises(ArenaFileNotFound) as caught:
        load_bundle(small, name)
    assert caught.value.message == message


def test_missing_arena_file_says_what_there_is(small: Path) -> None:
    """The remedy for a missing arena file is the list of those that are there."""
    with pytest.raises(ArenaFileNotFound) as caught:
        load_bundle(small, "other.yaml")
    assert caught.value.hint == "it has: config.arena.yaml"


def test_inline_specs(write: Write) -> None:
    """Specs may stand in the arena file, keyed by their id."""
    inline = """  prompt_specs: {second: {task_type: second, system_template: Be brief.}}
  provider_specs: {spare: {type: mock}}
  scenario_specs: {bye: {task_type: second, turns: [{role: user, content: Bye}]}}
  tool_specs: {search: {description: d, input_schema: {type: object}}}
  judge_specs: {strict: {provider: spare}}
"""
    bundle = load_bundle(write({"config.arena.yaml": ARENA + inline}))
    assert list(bundle.scenarios) == ["hello", "bye"]
    assert bundle.providers["spare"].group == "default"
    assert bundle.prompts["second"].id == "second"
    assert list(bundle.tools) == ["search"]
    assert bundle.arena.judges[0].provider == "spare"
    assert str(bundle.scenarios["bye"].location) == "config.arena.yaml:9"


def test_raw_tool_descriptor(write: Write) -> None:
    """A tool may be a bare JSON descriptor, tabs and all."""
    raw = '{\n\t"name": "search",\n\t"description": "d \\ud83d\\ude00 \\u00e9 \\/",\n\t"input_schema": {"type": "object"},\n\t"mode": "mock",\n\t"mock_result": {"a": [1, 2.5, null, true]}\n}\n'
    tool = load_bundle(write({"config.arena.yaml": ARENA + "  tools: [{file: t.json}]\n", "t.json": raw})).tools["search"]
    assert tool.mock_result == {"a": [1, 2.5, None, True]}
    assert tool.description == "d \U0001f600 é /"


def test_wrapper_is_taken_off(write: Write) -> None:
    """An `assertion` keeps its type for reports; the check to evaluate, its parameters and its bounds stand apart."""
    check = "{type: assertion, params: {eval_type: contains, eval_params: {patterns: [a]}, min_score: 0.5}, message: m}"
    bundle = load_bundle(write({"scenarios/hello.yaml": scenario(f"  turns: [{{role: user, content: Hello, assertions: [{check}]}}]\n")}))
    found = bundle.scenarios["hello"].turns[0].assertions[0]
    assert (found.type, found.check, found.params, found.min_score, found.message) == ("assertion", "contains", {"patterns": ["a"]}, 0.5, "m")


def test_message_in_params_is_lifted(write: Write) -> None:
    """A message inside params is the check's message when it has no other."""
    check = "{type: contains, params: {patterns: [a], message: inner, max_score: 1}}"
    found = (
        load_bundle(write({"scenarios/hello.yaml": scenario(f"  turns: [{{role: user, content: Hello, assertions: [{check}]}}]\n")}))
        .scenarios["hello"]
        .turns[0]
        .assertions[0]
    )
    assert (found.message, found.params, found.max_score) == ("inner", {"patterns": ["a"]}, 1)


def test_globals_come_first(write: Write) -> None:
    """The arena's conversation checks stand before a scenario's own."""
    arena = ARENA + "  globals: {conversation_assertions: [{type: min_length, params: {min: 1}}]}\n"
    rest = "  turns: [{role: user, content: Hello}]\n  conversation_assertions: [{type: max_length, params: {max: 9}}]\n"
    bundle = load_bundle(write({"config.arena.yaml": arena, "scenarios/hello.yaml": scenario(rest)}))
    assert [c.type for c in bundle.scenarios["hello"].conversation_assertions] == ["min_length", "max_length"]


def test_empty_values_count_as_not_given(write: Write) -> None:
    """A key whose value was left empty (all below it commented out) is as if it were absent."""
    bundle = load_bundle(
        write({"scenarios/hello.yaml": scenario("  turns:\n    - role: user\n      content: Hello\n      assertions:\n  tool_policy:\n")})
    )
    assert bundle.scenarios["hello"].turns[0].assertions == ()
    assert bundle.scenarios["hello"].tool_policy is None


def test_anchors_and_merges(write: Write) -> None:
    """Anchors and `<<` work inside a file; a mapping's own keys win."""
    rest = "  turns:\n    - &t {role: user, content: Hello}\n    - {<<: *t, content: Bye}\n    - *t\n"
    bundle = load_bundle(write({"scenarios/hello.yaml": scenario(rest)}))
    assert [turn.content for turn in bundle.scenarios["hello"].turns] == ["Hello", "Bye", "Hello"]


def test_key_in_the_bundle_is_dropped(write: Write) -> None:
    """An API key written into a provider file is not kept anywhere, and warned of."""
    spec = "kind: Provider\nmetadata: {name: mock}\nspec:\n  type: openai\n  credential: {api_key: sk-secret}\n"
    bundle = load_bundle(write({"providers/mock.yaml": spec}))
    assert "sk-secret" not in repr(bundle)
    assert bundle.warnings == ("providers/mock.yaml:5: 'api_key' in the bundle can be read by everyone who can read the repository, and is not used",)


def test_equal_files_give_equal_values(small: Path) -> None:
    """Loading is deterministic."""
    assert load_bundle(small) == load_bundle(small)


@pytest.mark.parametrize(
    ("table", "model", "apart"),
    [
        pytest.param(SCENARIO_TABLE, Scenario, set(), id="scenario"),
        pytest.param(PROMPT_TABLE, PromptConfig, {"template_engine", "tested_models", "metadata", "compilation"}, id="prompt"),
        pytest.param(TOOL_TABLE, Tool, set(), id="tool"),
        pytest.param(PERSONA_TABLE, Persona, set(), id="persona"),
        pytest.param(EVAL_TABLE, Evaluation, {"turns"}, id="eval"),
    ],
)
def test_tables_and_values_agree(table: Table, model: type[Any], apart: set[str]) -> None:
    """Every key of a table is a field of its value, unless it is known to be dropped."""
    fields = {f.name for f in dataclasses.fields(model)} | {"id"}
    assert set(table.keys) - apart <= fields


def test_no_key_is_both_warned_of_and_noted() -> None:
    """A key stands in one table of ignored keys at most, and the arena's are keys of the arena."""
    assert not IGNORED.keys() & NOTED.keys()
    assert {key for name, key in [*IGNORED, *NOTED] if name == ARENA_TABLE.name} <= set(ARENA_TABLE.keys)


def test_answers_in_a_bundle_are_no_key(write: Write) -> None:
    """Only a job brings mock answers as text: in a bundle the key is said to have no effect, and has none."""
    spec = "kind: Provider\nmetadata: {name: mock}\nspec:\n  type: mock\n  additional_config: {mock_answers: 'defaultResponse: no'}\n"
    bundle = load_bundle(write({"providers/mock.yaml": spec}))
    assert bundle.providers["mock"].spec["additional_config"] == {}
    assert bundle.warnings == ("providers/mock.yaml:5: 'mock_answers' of additional_config has no effect: the mock provider does not know it",)


def test_a_check_of_nothing_is_said(write: Write) -> None:
    """A check that can only pass gives a warning with its line."""
    checks = "      assertions: [{type: content_excludes, params: {patterns: []}}]\n"
    bundle = load_bundle(
        write(
            {
                "scenarios/hello.yaml": f"kind: Scenario\nmetadata: {{name: hello}}\nspec:\n  task_type: assistant\n  turns:\n    - role: user\n      content: Hello\n{checks}"
            }
        )
    )
    assert bundle.warnings == ("scenarios/hello.yaml:8: check 'content_excludes' can only pass: nothing is given in 'patterns'",)
