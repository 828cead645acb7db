"""Every way a small bundle can be wrong: the exact message and hint."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from engine.bundle import load_bundle
from engine.errors import BundleInvalid

Write = Callable[[Mapping[str, str | bytes | None]], Path]

HEAD = "kind: Scenario\nmetadata: {name: hello}\nspec:\n  task_type: assistant\n"
TURN = "  turns:\n    - role: user\n      content: Hello\n"
PROVIDER = "kind: Provider\nmetadata: {name: mock}\nspec:\n"
PROMPT = "kind: PromptConfig\nmetadata: {name: assistant}\nspec:\n  task_type: assistant\n"
ARENA = """kind: Arena
metadata: {name: small}
spec:
  prompt_configs: [{id: assistant, file: prompts/assistant.yaml}]
  providers: [{file: providers/mock.yaml}]
  scenarios: [{file: scenarios/hello.yaml}]
"""
TOOL = "kind: Tool\nmetadata: {name: search}\nspec:\n  description: d\n  input_schema: {type: object}\n"
S, P, C, A = "scenarios/hello.yaml", "providers/mock.yaml", "prompts/assistant.yaml", "config.arena.yaml"

WITH_TOOL = {A: ARENA + "  tools: [{file: tools/search.yaml}]\n", C: PROMPT + "  system_template: You help.\n  allowed_tools: [search]\n"}

CASES = [
    pytest.param(
        {S: HEAD + TURN + "      assertions: [{type: contains, params: {patterns: [a]}, when: {tool_called_pattern: '('}}]\n"},
        f"{S}:8: cannot read `when.tool_called_pattern`: missing ): (",
        "",
        id="a condition that is no pattern",
    ),
    pytest.param(
        {**WITH_TOOL, "tools/search.yaml": TOOL.replace("{type: object}", "{type: nothing}") + "  output_schema: {}\n  mode: mock\n"},
        "tools/search.yaml:2: cannot use tool 'search': 'input_schema' is not a JSON Schema: unknown type 'nothing'",
        "",
        id="a tool whose schema is none",
    ),
    pytest.param(
        {**WITH_TOOL, "tools/search.yaml": TOOL + "  output_schema: {}\n  mode: mock\n  mock_template: '{{template \"x\"}}'\n"},
        "tools/search.yaml:2: cannot use tool 'search': 'mock_template': 'template' is not supported in a mock template",
        "",
        id="a tool whose template asks for too much",
    ),
    # keys and types
    pytest.param(
        {A: ARENA.replace("providers:", "providrs:")},
        f"{A}:5: unknown key 'providrs' in the arena's spec",
        "did you mean 'providers'?",
        id="a misspelt key",
    ),
    pytest.param(
        {S: HEAD + "  tags: [a]\n" + TURN},
        f"{S}:5: unknown key 'tags' in a scenario's spec",
        "labels belong into metadata.labels",
        id="a key with a special remedy",
    ),
    pytest.param(
        {S: HEAD + TURN + "      assertions: [{type: contains, min_score: 1, params: {patterns: [a]}}]\n"},
        f"{S}:8: unknown key 'min_score' in a check",
        "write it inside `params`",
        id="min_score beside type",
    ),
    pytest.param(
        {S: HEAD + "  trials: many\n" + TURN}, f"{S}:5: cannot read 'trials': it must be a whole number, not text", "", id="text for a number"
    ),
    pytest.param(
        {S: HEAD + "  trials: 0\n" + TURN}, f"{S}:5: cannot read 'trials': it must be at least 1, not 0", "", id="a number below its minimum"
    ),
    pytest.param({S: HEAD + "  trials: 1.5\n" + TURN}, f"{S}:5: cannot read 'trials': it must be a whole number, not 1.5", "", id="a fraction"),
    pytest.param(
        {S: HEAD + "  turns: [{role: user, content: 42}]\n"},
        f"{S}:5: cannot read 'content': it must be text, not a number",
        "put it into quotes",
        id="a number for text",
    ),
    pytest.param(
        {S: HEAD + "  streaming: yes\n" + TURN},
        f"{S}:5: cannot read 'streaming': it must be true or false, not text",
        "",
        id="yes is text, as in YAML 1.2",
    ),
    pytest.param(
        {S: HEAD + "  turns: {role: user}\n"}, f"{S}:5: cannot read 'turns': it must be a list, not an object", "", id="an object for a list"
    ),
    pytest.param({S: HEAD + "  turns: [hello]\n"}, f"{S}:5: cannot read a turn: it must be an object, not text", "", id="text for an object"),
    pytest.param({S: HEAD + "  turns: [{content: Hello}]\n"}, f"{S}:5: missing key 'role' in a turn", "", id="a missing key"),
    pytest.param(
        {S: HEAD + "  tool_policy: {tool_choice: requird}\n" + TURN},
        f"{S}:5: cannot read 'tool_choice': unknown value 'requird'",
        "did you mean 'required'?",
        id="a word that is not in the list",
    ),
    pytest.param(
        {A: ARENA + "  defaults: {run_timeout: 5 minutes}\n"},
        f"{A}:7: cannot read 'run_timeout': '5 minutes' is not a duration",
        "write it as 30s, 5m or 500ms",
        id="a duration in words",
    ),
    # the envelope
    pytest.param(
        {S: "kind: Provider\nmetadata: {name: hello}\nspec: {type: mock}\n"},
        f"{S}:1: cannot use the file: its kind is 'Provider', not 'Scenario'",
        "this reference needs kind Scenario",
        id="a file of another kind",
    ),
    pytest.param(
        {S: "kind: Senario\nmetadata: {name: hello}\nspec: {}\n"},
        f"{S}:1: cannot use the file: its kind is 'Senario', not 'Scenario'",
        "did you mean 'Scenario'?",
        id="a misspelt kind",
    ),
    pytest.param({S: "kind: Scenario\nmetadata: {}\nspec: {}\n"}, f"{S}:2: missing key 'name' in metadata", "", id="no metadata.name"),
    pytest.param(
        {S: HEAD.replace("name: hello", "name: a/b") + TURN},
        f"{S}:2: cannot use the name 'a/b': it has a slash, a control character, or a space at an end",
        "names become parts of item ids",
        id="a name that would break item ids",
    ),
    # YAML
    pytest.param({S: HEAD + "  task_type: other\n" + TURN}, f"{S}:5: duplicate key 'task_type'", "it stands on line 4 already", id="a duplicate key"),
    pytest.param(
        {S: HEAD + "  turns: [\n"},
        f"{S}:6: cannot parse the file: did not find expected node content",
        "it must be one YAML document",
        id="broken YAML",
    ),
    pytest.param(
        {S: HEAD + TURN + "---\nkind: Scenario\n"},
        f"{S}:8: cannot parse the file: but found another document",
        "it must be one YAML document",
        id="two documents in a file",
    ),
    pytest.param({S: ""}, f"{S}:1: cannot read the file: it is empty", "", id="an empty file"),
    pytest.param(
        {S: HEAD.encode() + b"  description: \xff\n"}, f"{S}:5: cannot read the file: it is not UTF-8 text", "", id="bytes that are no text"
    ),
    pytest.param(
        {S: HEAD + "  context: !!python/name:os.system\n" + TURN},
        f"{S}:5: cannot read a value with the tag 'tag:yaml.org,2002:python/name:os.system'",
        "leave the tag out",
        id="a tag that would run code",
    ),
    pytest.param(
        {S: HEAD + "  context: {x: 1e999}\n" + TURN}, f"{S}:5: cannot read the number 1e999: it is too large", "", id="a number that is infinite"
    ),
    pytest.param(
        {S: HEAD + "  context: {x: " + "9" * 5000 + "}\n" + TURN},
        f"{S}:5: cannot read the number {'9' * 79}…: it is too large",
        "",
        id="a number of five thousand digits",
    ),
    pytest.param({S: HEAD + "  context: {x: .nan}\n" + TURN}, f"{S}:5: cannot read .nan: it is not a finite number", "", id="not a number"),
    # files
    pytest.param(
        {A: ARENA.replace("hello.yaml", "helo.yaml")},
        f"{A}:6: cannot find 'scenarios/helo.yaml': no such file in the bundle",
        "did you mean 'scenarios/hello.yaml'?",
        id="a missing scenario file",
    ),
    pytest.param(
        {A: ARENA.replace("providers/mock.yaml", "models/mock.yaml")},
        f"{A}:5: cannot find 'models/mock.yaml': no such file in the bundle",
        "there is no directory 'models'",
        id="a missing directory",
    ),
    pytest.param(
        {A: ARENA.replace("scenarios/hello.yaml", "../outside.yaml")},
        f"{A}:6: cannot read '../outside.yaml': the path leaves the bundle",
        "name a file inside the bundle, relative to this file",
        id="a path that climbs out",
    ),
    pytest.param(
        {A: ARENA.replace("scenarios/hello.yaml", "/etc/passwd")},
        f"{A}:6: cannot read '/etc/passwd': the path leaves the bundle",
        "name a file inside the bundle, relative to this file",
        id="an absolute path",
    ),
    pytest.param({A: ARENA.replace("scenarios/hello.yaml", "scenarios")}, f"{A}:6: cannot read 'scenarios': is a directory", "", id="a directory"),
    # providers
    pytest.param(
        {P: PROVIDER + "  type: anthropic\n"},
        f"{P}:4: unknown provider type 'anthropic'",
        "did you mean 'claude'?",
        id="another name of a provider type",
    ),
    pytest.param({P: PROVIDER + "  model: x\n"}, f"{P}:4: missing key 'type' in a provider's spec", "", id="a provider without type"),
    pytest.param(
        {C: PROMPT + "  system_template: x\n  allowed_tools: [mcp__files__read]\n"},
        f"{C}:2: prompt 'assistant' allows the tool 'mcp__files__read', which the bundle does not have",
        "name its file in the arena's tools",
        id="a tool of a server that is not there",
    ),
    pytest.param(
        {S: HEAD + TURN + "      assertions: [{type: contains, params: {patterns: [a], min_score: 0.5, max_score: 0.4}}]\n"},
        f"{S}:8: cannot read 'min_score': 0.5 is above the max_score of 0.4",
        "",
        id="bounds that rule each other out",
    ),
    pytest.param(
        {P: PROVIDER + "  type: mock\n  additional_config: {latency_ms: slow}\n"},
        f"{P}:5: cannot read 'latency_ms': it must be a number, not text",
        "",
        id="a latency that is no number",
    ),
    pytest.param(
        {P: PROVIDER + "  type: mock\n  additional_config: {latency_ms: -5}\n"},
        f"{P}:5: cannot read 'latency_ms': it must be from 0 to 3.6e+06, not -5",
        "",
        id="a latency before its time",
    ),
    pytest.param(
        {"mock.yaml": "scenarios: {hello: {turns: {1: {type: tool_calls, content: hi}}}}\n"},
        "mock.yaml:1: cannot read the mock turn: its type is tool_calls, and it has none",
        "add tool_calls, or leave `type` out",
        id="a mock turn without the calls it speaks of",
    ),
    pytest.param(
        {"mock.yaml": "scenarios: {hello: {turns: {1: hi, 01: ho}}}\n"},
        "mock.yaml:1: cannot read 'turns': '01' is not a turn number",
        "turns are counted from 1",
        id="a turn number under two names",
    ),
    pytest.param(
        {P: PROVIDER + "  type: mock\n  additional_config: {mock_config: replies.yaml}\n"},
        f"{P}:5: cannot find 'replies.yaml': no such file in '.' and 'providers'",
        "the path is relative to the arena file's directory",
        id="a mock file that is not there",
    ),
    pytest.param(
        {"mock.yaml": "default_response: hi\n"},
        "mock.yaml:1: unknown key 'default_response' in a mock response file",
        "did you mean 'defaultResponse'?",
        id="a misspelt mock key",
    ),
    pytest.param(
        {"mock.yaml": "hello\n"},
        "mock.yaml:1: cannot read a mock response file: it is text",
        "its keys are: defaultResponse, scenarios, selfplay",
        id="a mock file that is text",
    ),
    pytest.param(
        {"mock.yaml": "scenarios: {hello: {turns: {first: hi}}}\n"},
        "mock.yaml:1: cannot read 'turns': 'first' is not a turn number",
        "turns are counted from 1",
        id="a mock turn without number",
    ),
    pytest.param(
        {P: PROVIDER + "  type: mock\n  additional_config: {mock_confg: mock.yaml}\n"},
        f"{P}:5: unknown key 'mock_confg' in additional_config of a mock",
        "did you mean 'mock_config'?",
        id="a misspelt mock_config",
    ),
    # checks
    pytest.param(
        {S: HEAD + TURN + "      assertions: [{type: containz, params: {patterns: [a]}}]\n"},
        f"{S}:8: unknown check 'containz'",
        "did you mean 'contains'?",
        id="an unknown check",
    ),
    pytest.param(
        {S: HEAD + TURN + "      assertions:\n        - type: contains\n          params:\n            pattern: [a]\n"},
        f"{S}:11: unknown parameter 'pattern' of check 'contains'",
        "did you mean 'patterns'?",
        id="a mistyped parameter",
    ),
    pytest.param(
        {
            S: HEAD
            + TURN
            + "      assertions:\n        - type: assertion\n          params:\n            eval_type: contains\n            eval_params:\n              patern: [a]\n"
        },
        f"{S}:13: unknown parameter 'patern' of check 'contains'",
        "did you mean 'patterns'?",
        id="a mistyped parameter inside the wrapper",
    ),
    pytest.param(
        {S: HEAD + TURN + "      assertions: [{type: assertion, params: {min_score: 1}}]\n"},
        f"{S}:8: missing key 'eval_type' in params of an assertion",
        "name the check to evaluate",
        id="a wrapper around nothing",
    ),
    pytest.param(
        {C: PROMPT + "  system_template: x\n  validators: [{type: banned_wordz}]\n"},
        f"{C}:6: unknown check 'banned_wordz'",
        "did you mean 'banned_words'?",
        id="an unknown guardrail",
    ),
    pytest.param(
        {C: PROMPT + "  system_template: x\n  validators: [{type: banned_words, params: {word: [a]}}]\n"},
        f"{C}:6: unknown parameter 'word' of check 'banned_words'",
        "did you mean 'words'?",
        id="a mistyped guardrail parameter",
    ),
    pytest.param(
        {C: PROMPT + "  system_template: x\n  validators: [{type: banned_words, params: {words: [a], direction: out}}]\n"},
        f"{C}:6: cannot read 'direction': it must be one of input, output, both",
        "",
        id="a guardrail in no direction",
    ),
    # between files
    pytest.param(
        {S: HEAD.replace("task_type: assistant", "task_type: asistant") + TURN},
        f"{S}:2: no prompt has the task_type 'asistant' of scenario 'hello'",
        "did you mean 'assistant'?",
        id="a task_type without prompt",
    ),
    pytest.param(
        {S: "kind: Scenario\nmetadata: {name: hello}\nspec:\n" + TURN},
        f"{S}:2: scenario 'hello' has no task_type",
        "task_type names the prompt that the scenario talks to",
        id="a scenario without task_type",
    ),
    pytest.param({S: HEAD + "  turns: []\n"}, f"{S}:2: scenario 'hello' has no turns", "it would pass without asking anything", id="no turns"),
    pytest.param(
        {S: HEAD + "  turns: [{role: user, parts: [{type: text}]}]\n"}, f"{S}:5: a text part has no text", "", id="a part that says nothing"
    ),
    pytest.param(
        {S: HEAD.replace("hello", '"a\\u202eb"') + TURN},
        f"{S}:2: cannot use the name 'a\u202eb': it has a slash, a control character, or a space at an end",
        "names become parts of item ids",
        id="a name that turns its reading direction",
    ),
    pytest.param({S: HEAD + "  turns: [{role: user}]\n"}, f"{S}:5: a user's turn has neither content nor parts", "", id="an empty turn"),
    pytest.param(
        {S: HEAD + "  turns: [{role: usr, content: x}]\n"}, f"{S}:5: unknown role 'usr' of a turn", "did you mean 'user'?", id="an unknown role"
    ),
    pytest.param(
        {C: PROMPT + "  system_template: Hi {{nme}}\n  variables: [{name: name, default: Ann}]\n"},
        f"{C}:2: '{{{{nme}}}}' in the template of prompt 'assistant' has no value in scenario 'hello'",
        "did you mean 'name'?",
        id="an unresolved variable",
    ),
    pytest.param(
        {C: PROMPT + "  system_template: Hi {{days}}\n  variables: [{name: days, default: 30}]\n"},
        f"{C}:2: '{{{{days}}}}' in the template of prompt 'assistant' has no value in scenario 'hello'",
        "its default is not text: put it into quotes",
        id="a default that is no text",
    ),
    pytest.param(
        {C: PROMPT + "  system_template: Hi {{name}}\n  variables: [{name: name, required: true}]\n"},
        f"{C}:2: required variable 'name' of prompt 'assistant' has no value in scenario 'hello'",
        "set it in the scenario's variables, or in vars of prompt_configs 'assistant'",
        id="a required variable without value",
    ),
    pytest.param(
        {C: PROMPT + "  system_template: x\n  allowed_tools: [serch]\n", A: ARENA + "  tools: [{file: t.yaml}]\n", "t.yaml": TOOL},
        f"{C}:2: prompt 'assistant' allows the tool 'serch', which the bundle does not have",
        "did you mean 'search'?",
        id="a tool that is not there",
    ),
    pytest.param(
        {S: HEAD + "  turns: [{role: user, content: Hello, perturbations: {who: [a, b]}}]\n"},
        f"{S}:5: perturbation 'who' changes nothing: no turn of the scenario says '{{who}}'",
        "",
        id="a perturbation of nothing",
    ),
    pytest.param(
        {S: HEAD + "  turns: [{role: user, content: 'Hello {who}', perturbations: {who: []}}]\n"},
        f"{S}:5: cannot read 'perturbations.who': a perturbation without values leaves nothing to run",
        "give it a value, or remove it",
        id="a perturbation without values",
    ),
    pytest.param(
        {S: HEAD + "  turns: [{role: user, content: 'Hello {who}', perturbations: {who: [a, a]}}]\n"},
        f"{S}:5: cannot read 'perturbations.who': the value 'a' stands twice",
        "remove one of the two",
        id="a perturbation with a value twice",
    ),
    # duplicates
    pytest.param(
        {
            A: ARENA.replace("[{file: scenarios/hello.yaml}]", "[{file: scenarios/hello.yaml}, {file: scenarios/two.yaml}]"),
            "scenarios/two.yaml": HEAD + TURN,
        },
        "scenarios/two.yaml:2: duplicate scenario 'hello'",
        "it is at scenarios/hello.yaml:3 already; metadata.name is the id",
        id="two scenarios of one name",
    ),
    pytest.param(
        {A: ARENA + "  provider_specs: {mock: {type: mock}}\n"},
        f"{A}:7: duplicate provider 'mock'",
        "it is at providers/mock.yaml:3 already; metadata.name is the id",
        id="an inline provider of a file's name",
    ),
    pytest.param(
        {
            A: ARENA.replace("file: prompts/assistant.yaml}]", "file: prompts/assistant.yaml}, {id: two, file: prompts/two.yaml}]"),
            "prompts/two.yaml": PROMPT + "  system_template: y\n",
        },
        f"{A}:4: duplicate task_type 'assistant' of prompt 'two'",
        "'assistant' has it already (prompts/assistant.yaml); give each prompt its own task_type",
        id="two prompts of one task_type",
    ),
]


@pytest.mark.parametrize(("changes", "message", "hint"), CASES)
def test_error(write: Write, changes: dict[str, str | bytes | None], message: str, hint: str) -> None:
    """A bundle with one fault is refused with the fault's file, line and key, and with the remedy."""
    with pytest.raises(BundleInvalid) as caught:
        load_bundle(write(changes))
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_faults_are_reported_together(write: Write) -> None:
    """Faults in several files come in one error, by file and line, each with its remedy."""
    root = write({S: HEAD + "  streeming: true\n" + TURN, P: PROVIDER + "  type: mok\n"})
    with pytest.raises(BundleInvalid) as caught:
        load_bundle(root)
    assert caught.value.message.splitlines() == [
        f"{P}:4: unknown provider type 'mok'; did you mean 'mock'?",
        f"{S}:5: unknown key 'streeming' in a scenario's spec; did you mean 'streaming'?",
    ]
    assert caught.value.hint == "2 problems; `arena validate` lists them all"


def test_many_faults_are_bounded(write: Write) -> None:
    """An error holds 20 faults and the number of the others."""
    root = write({S: HEAD + TURN + "".join(f"  wrong{n}: 1\n" for n in range(25))})
    with pytest.raises(BundleInvalid) as caught:
        load_bundle(root)
    lines = caught.value.message.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 5 more"


def test_symlink_out_of_the_bundle(write: Write, tmp_path: Path) -> None:
    """A symlink that leads out of the bundle is not followed."""
    (tmp_path / "secret.yaml").write_text(HEAD + TURN)
    root = write({S: None})
    (root / "scenarios").mkdir()
    (root / S).symlink_to(tmp_path / "secret.yaml")
    with pytest.raises(BundleInvalid, match=r"cannot read 'scenarios/hello.yaml': a symlink leads out of the bundle"):
        load_bundle(root)


def test_symlink_inside_the_bundle(write: Write) -> None:
    """A symlink that stays inside the bundle is a file like any other."""
    root = write({"shared/hello.yaml": HEAD + TURN, S: None})
    (root / "scenarios").mkdir()
    (root / S).symlink_to(root / "shared/hello.yaml")
    assert list(load_bundle(root).scenarios) == ["hello"]
