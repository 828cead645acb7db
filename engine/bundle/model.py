"""The values of a bundle: one frozen dataclass a thing of the PromptKit format, its fields named as the format's keys.

Owns the shapes and nothing else: `fields.py` says which key is read how, `loader.py` reads. Every spec carries its `location`, so that any
later error can name file and line. Free-form objects of the format (params, schemas, results) are plain JSON values. Paths in these values are
relative to the bundle's root, with `/`, and were checked to stay inside it. Must not know what a run, a queue or a provider's protocol is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from engine.bundle.paths import resolve_inside

if TYPE_CHECKING:
    from engine.bundle.compositions import Composition
    from engine.bundle.contexts import ContextPolicy, SeedMemory
    from engine.bundle.evaluations import EvalDef, Evaluation
    from engine.bundle.prompt_parts import Fragment, ModelOverride
    from engine.bundle.roles import Judge, Persona, SelfPlayRole
    from engine.bundle.services import A2aAgent, Command, HttpCall, McpServer
    from engine.bundle.skills import Skill
    from engine.bundle.workflows import Workflow

Json = Any
"""A JSON value: None, bool, int, float, str, list or dict with str keys."""

NOTHING: Mapping[str, Any] = MappingProxyType({})
"""The empty object, shared."""


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A place in the bundle: a file relative to its root, and a line from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


NOWHERE = Location("", 0)


@dataclass(frozen=True, slots=True)
class When:
    """When a check applies: all given conditions must hold over the tool calls so far. `tool_called_pattern` is RE2."""

    tool_called: str = ""
    tool_called_pattern: str = ""
    any_tool_called: bool = False
    min_tool_calls: int | None = None


@dataclass(frozen=True, slots=True)
class Assertion:
    """One check as an author wrote it, with the `assertion` wrapper taken off.

    `type` is what the author wrote (`assertion` for a wrapped one) and is what results show; `check` is the type to evaluate: the `eval_type` of a
    wrapper, otherwise `type`. `params` are the check's own (a wrapper's `eval_params`); `min_score` and `max_score` were lifted out of them, and so was
    `message`, which many files put there: the entry's own message wins. Aliases of check types are not resolved here.
    `pass_threshold` (0 to 1) is the share of a scenario's trials in which the check must pass for the run to pass; None: in each.
    """

    type: str
    check: str
    params: Mapping[str, Json] = field(default_factory=dict)
    message: str = ""
    when: When | None = None
    min_score: float | None = None
    max_score: float | None = None
    pass_threshold: float | None = None
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class Media:
    """The payload of a media part; `file_path` is relative to the bundle's root."""

    file_path: str = ""
    url: str = ""
    data: str = ""
    storage_reference: str = ""
    mime_type: str = ""
    detail: str = ""
    caption: str = ""
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a message. `type` is text, image, audio, video or document."""

    type: str
    text: str = ""
    media: Media | None = None
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """A failure to inject. `mode` is error, timeout or slow; `probability` 0 means always."""

    tool: str
    mode: str
    probability: float = 0.0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Chaos:
    """Failures to inject during one turn."""

    tool_failures: tuple[ToolFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One entry of a scenario's script. `role` is `user` for a scripted turn, otherwise a self-play role.

    `streaming` overrides the scenario when not None. `content` is ignored when there are `parts`. `{key}` of each perturbation is replaced in
    `content` and text parts by the item's value.
    """

    role: str
    content: str = ""
    parts: tuple[Part, ...] = ()
    persona: str = ""
    turns: int = 1
    max_turns: int | None = None
    streaming: bool | None = None
    assistant_temp: float | None = None
    user_temp: float | None = None
    seed: int | None = None
    consent_overrides: Mapping[str, str] = field(default_factory=dict)
    perturbations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    chaos: Chaos | None = None
    assertions: tuple[Assertion, ...] = ()
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """Limits of the tool loop; None where the author said nothing.

    A scenario's policy overrides its prompt's, key by key. The reference's defaults: tool_choice auto, max_rounds 50, max_cost_usd 2.00,
    max_identical_tool_calls 3. `max_total_tool_calls` is never read, `max_tool_calls_per_turn` is not enforced (both warn).
    """

    tool_choice: str | None = None
    max_tool_calls_per_turn: int | None = None
    max_total_tool_calls: int | None = None
    blocklist: tuple[str, ...] = ()
    max_rounds: int | None = None
    max_cost_usd: float | None = None
    max_identical_tool_calls: int | None = None
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scripted conversation. `id` is metadata.name, `file` the file it was read from (the arena file for an inline one).

    `conversation_assertions` are the arena's `globals` followed by the scenario's own. `trials` is None when the author said nothing (then 1).
    """

    id: str
    file: str
    task_type: str = ""
    description: str = ""
    mode: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    context_metadata: Mapping[str, str] = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()
    context: Json = None
    constraints: Json = None
    tool_policy: ToolPolicy | None = None
    providers: tuple[str, ...] | None = None
    provider_group: str = "default"
    required_capabilities: tuple[str, ...] = ()
    streaming: bool = False
    context_policy: "ContextPolicy | None" = None
    conversation_assertions: tuple[Assertion, ...] = ()
    duplex: Json = None
    voice: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    trials: int | None = None
    seed_memories: tuple["SeedMemory", ...] = ()
    location: Location = NOWHERE

    @property
    def checks(self) -> tuple[Assertion, ...]:
        """Return every check, those of turns first."""
        return (*(check for turn in self.turns for check in turn.assertions), *self.conversation_assertions)


@dataclass(frozen=True, slots=True)
class RequestDefaults:
    """Request parameters of a provider or of the arena; None where unset. The arena's values win over a provider's."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    prompt_caching: Json = None


@dataclass(frozen=True, slots=True)
class Pricing:
    """Flat prices in USD for 1,000 tokens; both must be above 0 to apply."""

    input_cost_per_1k: float = 0.0
    output_cost_per_1k: float = 0.0


@dataclass(frozen=True, slots=True)
class Provider:
    """A model to talk to. `id` is metadata.name; `group` stands on the arena's reference to it.

    `mock_config` is `additional_config.mock_config`, resolved: relative to the bundle's root, "" without one. `spec` is the whole spec as
    written (plain JSON), with `id` set and `additional_config.mock_config` resolved: what a plan carries, less secrets.
    """

    id: str
    file: str
    type: str
    model: str = ""
    role: str = "llm"
    group: str = "default"
    capabilities: tuple[str, ...] = ()
    defaults: RequestDefaults = RequestDefaults()
    pricing: Pricing | None = None
    unsupported_params: tuple[str, ...] = ()
    additional_config: Mapping[str, Json] = field(default_factory=dict)
    mock_config: str = ""
    spec: Mapping[str, Json] = field(default_factory=dict)
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a prompt. Only a string `default` is ever used for substitution (2.8, 5.2)."""

    name: str
    type: str = ""
    required: bool = False
    default: Json = None
    description: str = ""
    example: Json = None
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class Validator:
    """A guardrail. `direction` (input, output, both), `min_score` and `max_score` were lifted out of `params`; `message` replaces a blocked reply."""

    type: str
    params: Mapping[str, Json] = field(default_factory=dict)
    enabled: bool = True
    message: str = ""
    direction: str = "output"
    min_score: float | None = None
    max_score: float | None = None
    fail_on_violation: bool | None = None
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class PromptConfig:
    """A system prompt and what goes with it. `id` is the arena's reference id, `name` metadata.name; conversations find it by `task_type`."""

    id: str
    name: str
    file: str
    task_type: str
    system_template: str
    version: str = ""
    description: str = ""
    fragments: tuple["Fragment", ...] = ()
    variables: tuple[Variable, ...] = ()
    model_overrides: Mapping[str, "ModelOverride"] = field(default_factory=lambda: NOTHING)
    allowed_tools: tuple[str, ...] = ()
    tool_policy: ToolPolicy | None = None
    parameters: Json = None
    media: Json = None
    validators: tuple[Validator, ...] = ()
    evals: tuple["EvalDef", ...] = ()
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. `name` is metadata.name (a raw JSON descriptor's own `name`). `mode` is mock, live, mcp, exec, client or local; "" counts as mock.

    `timeout_ms` 0 is no timeout. `mock_result` None means none was given.
    """

    name: str
    file: str
    description: str = ""
    input_schema: Mapping[str, Json] = field(default_factory=dict)
    output_schema: Mapping[str, Json] | None = None
    mode: str = "mock"
    timeout_ms: int = 0
    mock_result: Json = None
    mock_template: str = ""
    mock_parts: tuple[Part, ...] = ()
    http: "HttpCall | None" = None
    exec: "Command | None" = None
    client: Json = None
    location: Location = NOWHERE

    @property
    def is_mocked(self) -> bool:
        """Return whether its answers stand in the bundle; a client's do too, for no client is there."""
        return self.mode in {"mock", "client"}


@dataclass(frozen=True, slots=True)
class ArenaSpec:
    """What the arena file says beyond the files it names.

    `config_dir` is relative to the bundle's root; `run_timeout_s` is `defaults.run_timeout` in seconds. `judge_prompt` is judge_defaults.prompt: a
    prompt's id. `inference` names the provider of each kind of classifier, and the embedder. `programs` are those of `runtime.evals`, which evaluate;
    `runtime` names its other keys. `uses` holds, for every key of the arena file's spec that is there, its line: the place to name when a key is not
    supported.
    """

    name: str
    defaults: RequestDefaults = RequestDefaults()
    config_dir: str = ""
    run_timeout_s: float | None = None
    state_store: str = "memory"
    judges: tuple["Judge", ...] = ()
    judge_prompt: str = ""
    inference: Mapping[str, str] = field(default_factory=dict)
    roles: tuple["SelfPlayRole", ...] = ()
    globals: tuple[Assertion, ...] = ()
    pack_evals: tuple["EvalDef", ...] = ()
    workflow: "Workflow | None" = None
    compositions: Mapping[str, "Composition"] = field(default_factory=lambda: NOTHING)
    skills: tuple["Skill", ...] = ()
    memory: bool = False
    mcp_servers: tuple["McpServer", ...] = ()
    a2a_agents: tuple["A2aAgent", ...] = ()
    programs: Mapping[str, "Command"] = field(default_factory=lambda: NOTHING)
    runtime: tuple[str, ...] = ()
    uses: Mapping[str, Location] = field(default_factory=dict)
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle, read and checked whole.

    Maps are ordered as the arena file names things. `prompts` and `prompt_vars` (the `vars` of the arena's reference) are keyed by task_type.
    `warnings` are sentences that start with `file:line:`.
    """

    root: Path
    arena_file: str
    arena: ArenaSpec
    scenarios: Mapping[str, Scenario]
    providers: Mapping[str, Provider]
    prompts: Mapping[str, PromptConfig]
    prompt_vars: Mapping[str, Mapping[str, str]]
    tools: Mapping[str, Tool]
    personas: Mapping[str, "Persona"]
    evals: Mapping[str, "Evaluation"]
    warnings: tuple[str, ...] = field(default=())

    def subject(self, ident: str) -> "Scenario | Evaluation":
        """Return what a plan's item is of: the scenario of this id, else the eval.

        Raises:
            KeyError: there is neither.
        """
        return self.scenarios[ident] if ident in self.scenarios else self.evals[ident]

    def resolve_path(self, file: str) -> Path:
        """Return where `file` (relative to the bundle's root, as all paths in these values) is on disk.

        Raises:
            BundleInvalid: it leaves the bundle, also by a symlink.
        """
        return resolve_inside(self.root, file)
