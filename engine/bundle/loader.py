"""Loads a bundle: the arena file, every file it names, and what must hold between them.

`load_bundle` raises all problems together; `read_bundle` hands them out, for `arena validate`. Owns the order of reading and the registries
(ids are metadata.name; a second thing of one id is an error). Must not know how anything is run.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from yaml.nodes import MappingNode, Node, ScalarNode

from engine.bundle import crosschecks
from engine.bundle.arena_reader import ARENA_TABLE, ROLE_SLOTS, Reference, program_names
from engine.bundle.eval_reader import read_evaluation
from engine.bundle.evaluations import Evaluation
from engine.bundle.fields import read_object
from engine.bundle.files import BundleFiles, Manifest, read_manifest, valid_id
from engine.bundle.mock_reader import load_mock
from engine.bundle.model import (
    NOTHING,
    ArenaSpec,
    Bundle,
    Location,
    PromptConfig,
    Provider,
    RequestDefaults,
    Scenario,
    Tool,
)
from engine.bundle.paths import join, resolve_inside
from engine.bundle.problems import Problems, shown
from engine.bundle.prompt_parts import load_fragments
from engine.bundle.prompt_reader import read_persona, read_prompt, read_tool
from engine.bundle.provider_reader import read_provider
from engine.bundle.roles import Judge, Persona
from engine.bundle.scenario_reader import read_scenario
from engine.bundle.skills import Skill, SkillReference
from engine.bundle.yamltree import Document, entries, is_null
from engine.errors import ArenaFileNotFound, BundleInvalid

DEFAULT_ARENA_FILE = "config.arena.yaml"
GLOB_CHARACTERS = frozenset("*?[")

T = TypeVar("T")
Values = dict[str, Any]


def load_bundle(root: Path, arena_file: str = DEFAULT_ARENA_FILE, *, own_providers: bool = True) -> Bundle:
    """Read and check a bundle whole. Reads nothing outside `root`; the same files give equal values.

    `arena_file` is relative to `root`; a directory stands for the `config.arena.yaml` in it. Without `own_providers` somebody else brings the models:
    of the bundle's only ids, groups and roles are looked at, and what is wrong with their files is no matter.

    Raises:
        ArenaFileNotFound: `arena_file` is not in the bundle, is a glob, or leaves the bundle.
        BundleInvalid: anything else; the message starts with `file:line:` and holds a line for each of the first 20 problems.
    """
    bundle, problems = read_bundle(root, arena_file, own_providers=own_providers)
    problems.raise_errors()
    if bundle is None:
        raise BundleInvalid(f"{arena_file}: cannot read the bundle")
    return bundle


def read_bundle(root: Path, arena_file: str = DEFAULT_ARENA_FILE, *, own_providers: bool = True) -> tuple[Bundle | None, Problems]:
    """Read a bundle as far as it can be read, with all that is wrong with it. The bundle is usable only when no problem is an error.

    Raises:
        ArenaFileNotFound: as `load_bundle`.
    """
    file = find_arena_file(root, arena_file)
    problems = Problems()
    loading = _Loading(BundleFiles(Path(os.path.realpath(root)), problems), file, own_providers)
    return loading.run(), problems


def find_arena_file(root: Path, arena_file: str) -> str:
    """Return the arena file relative to `root`.

    Raises:
        ArenaFileNotFound: there is no such file, the name is a glob, or it leaves the bundle.
    """
    if GLOB_CHARACTERS & set(arena_file):
        raise ArenaFileNotFound(f"cannot load arena file '{arena_file}': it is a pattern", hint="name one file; a run loads exactly one arena file")
    file = join("", arena_file)
    if file is None:
        raise ArenaFileNotFound(f"cannot load arena file '{arena_file}': the path leaves the bundle", hint="name it relative to the bundle's root")
    try:
        path = resolve_inside(root, file)
        if path.is_dir():
            file = join(file, DEFAULT_ARENA_FILE) or file
            path = resolve_inside(root, file)
    except BundleInvalid as error:
        raise ArenaFileNotFound(f"cannot load arena file '{arena_file}': {error.message.partition(': ')[2]}", hint=error.hint) from error
    if not path.is_file():
        raise ArenaFileNotFound(f"cannot find arena file '{file}' in the bundle", hint=_arena_files(root))
    return file


def _arena_files(root: Path) -> str:
    try:
        found = sorted(path.name for path in root.iterdir() if path.name.endswith((".arena.yaml", ".arena.yml")))[:10]
    except OSError:
        return f"there is no directory '{root}'"
    return f"it has: {', '.join(found)}" if found else f"an arena file is usually called {DEFAULT_ARENA_FILE}"


@dataclass(slots=True)
class _Loading:
    """One bundle while it is loaded."""

    files: BundleFiles
    arena_file: str
    own_providers: bool = True
    mocks_checked: set[str] = field(default_factory=set)

    def run(self) -> Bundle | None:
        arena = self.files.manifest(self.arena_file, Location(self.arena_file, 0), "Arena")
        if arena is None:
            return None
        self.files.programs = arena.document.programs = program_names(arena.document, arena.spec)
        values = self.files.attempt(arena.document, lambda: read_object(arena.document, arena.spec, ARENA_TABLE))
        if values is None:
            return None
        self.files.config_dir = values.get("defaults", NOTHING).get("config_dir", arena.document.directory)
        arena.document.config_dir = self.files.config_dir
        bundle = self._with_pack(self._read_all(arena, values), values.get("pack_file", ""))
        crosschecks.check_bundle(bundle, self.files.problems)
        return _with_warnings(bundle, self.files.problems)

    def _read_all(self, arena: Manifest, values: Values) -> Bundle:
        spec = self._arena_spec(arena, values)
        providers = self._providers(arena, values) if self.own_providers else self._idle_providers(arena, values)
        prompts, prompt_vars = self._prompts(arena, values)
        play: Mapping[str, Any] = values.get("self_play", NOTHING)
        return Bundle(
            root=self.files.root,
            arena_file=self.arena_file,
            arena=spec,
            scenarios=self._named(arena, "scenario", values.get("scenarios", ()), values.get("scenario_specs"), _scenario_maker(spec)),
            providers=providers,
            prompts=prompts,
            prompt_vars=prompt_vars,
            tools=self._tools(arena, values),
            personas=self._named(arena, "persona", play.get("personas", ()), play.get("persona_specs"), _make_persona),
            evals=self._named(arena, "eval", values.get("evals", ()), values.get("eval_specs"), _eval_maker(spec)),
        )

    def _with_pack(self, bundle: Bundle, file: str) -> Bundle:
        if not file:
            return bundle
        from engine.bundle.pack_reader import load_pack, with_pack  # noqa: PLC0415 - only arenas that name one need it

        return with_pack(bundle, load_pack(self.files, file, bundle.arena.uses["pack_file"]), self.files.problems)

    def _arena_spec(self, arena: Manifest, values: Values) -> ArenaSpec:
        defaults: Mapping[str, Any] = values.get("defaults", NOTHING)
        inline = tuple(Judge(name, spec["provider"], arena.location) for name, spec in values.get("judge_specs", NOTHING).items())
        present = entries(arena.document, arena.spec) if isinstance(arena.spec, MappingNode) else {}
        return ArenaSpec(
            name=arena.name,
            defaults=RequestDefaults(temperature=defaults.get("temperature"), max_tokens=defaults.get("max_tokens"), seed=defaults.get("seed")),
            config_dir=self.files.config_dir,
            run_timeout_s=defaults.get("run_timeout"),
            state_store=values.get("state_store", NOTHING).get("type", "memory"),
            judges=(*values.get("judges", ()), *inline),
            inference=defaults.get("inference", NOTHING),
            judge_prompt=values.get("judge_defaults", NOTHING).get("prompt", ""),
            roles=values.get("self_play", NOTHING).get("roles", ()),
            globals=values.get("globals", NOTHING).get("conversation_assertions", ()),
            pack_evals=values.get("pack_evals", ()),
            workflow=values.get("workflow"),
            compositions=values.get("compositions", NOTHING),
            skills=self._skills(values.get("skills", ())),
            memory=values.get("memory", False),
            mcp_servers=values.get("mcp_servers", ()),
            a2a_agents=values.get("a2a_agents", ()),
            programs=values.get("runtime", NOTHING).get("evals", NOTHING),
            runtime=tuple(key for key in values.get("runtime", NOTHING) if key != "evals"),
            uses={key: arena.document.at(node) for key, (node, value) in present.items() if not is_null(value)},
            location=arena.location,
        )

    def _skills(self, references: tuple[SkillReference, ...]) -> tuple[Skill, ...]:
        if not references:
            return ()
        from engine.bundle.skill_reader import load_skills  # noqa: PLC0415 - only arenas that have skills need it

        return load_skills(self.files, references)

    def _providers(self, arena: Manifest, values: Values) -> dict[str, Provider]:
        def make(document: Document, node: Node, ident: "_Ident") -> Provider | None:
            fields = read_provider(document, node, ident.name)
            if fields is None and self.own_providers:
                return None
            fields = fields or {"type": ""}
            self._check_mock(fields.get("mock_config", ""), ident.location)
            group = ident.reference.group if ident.reference else "default"
            return Provider(id=ident.name, file=document.file, group=group, location=ident.location, **fields)

        slots = [(role, reference) for slot, role in ROLE_SLOTS.items() for reference in values.get(slot, ())]
        references = (*values.get("providers", ()), *(reference for _, reference in slots))
        providers = self._named(arena, "provider", references, values.get("provider_specs"), make)
        wanted = {reference.file: (role, reference.location) for role, reference in slots}
        for provider in providers.values():
            role, place = wanted.get(provider.file, (provider.role, provider.location))
            if role != provider.role:
                self.files.problems.error(place, f"cannot use provider '{provider.id}' here: its role is {provider.role}, not {role}")
        return providers

    def _idle_providers(self, arena: Manifest, values: Values) -> dict[str, Provider]:
        """Return the providers whose place others take, of which id and group alone count; what cannot be read of one is as if it were not there."""
        problems, self.files.problems = self.files.problems, Problems()
        try:
            return self._providers(arena, values)
        finally:
            self.files.problems = problems

    def _check_mock(self, file: str, named_at: Location) -> None:
        if file and file not in self.mocks_checked:
            self.mocks_checked.add(file)
            load_mock(self.files, file, named_at)

    def _prompts(self, arena: Manifest, values: Values) -> tuple[dict[str, PromptConfig], dict[str, Mapping[str, str]]]:
        prompts: dict[str, PromptConfig] = {}
        prompt_vars: dict[str, Mapping[str, str]] = {}
        ids: dict[str, Location] = {}
        for document, node, ident in self._specs(arena, "PromptConfig", values.get("prompt_configs", ()), values.get("prompt_specs")):
            fields = self.files.attempt(document, lambda document=document, node=node: read_prompt(document, node))  # type: ignore[misc]
            reference = ident.reference
            place, prompt_id = (reference.location, reference.id) if reference else (ident.location, ident.name)
            if prompt_id in ids:
                self.files.problems.error(place, f"duplicate prompt id '{prompt_id}'", f"it is at {ids[prompt_id]} already")
            ids.setdefault(prompt_id, place)
            if fields is None:
                continue
            fields["fragments"] = load_fragments(self.files, fields.get("fragments", ()))
            prompt = PromptConfig(id=prompt_id, name=ident.name, file=document.file, location=ident.location, **fields)
            if (other := prompts.get(prompt.task_type)) is not None:
                hint = f"'{other.id}' has it already ({other.file}); give each prompt its own task_type"
                self.files.problems.error(place, f"duplicate task_type '{prompt.task_type}' of prompt '{prompt_id}'", hint)
                continue
            prompts[prompt.task_type] = prompt
            prompt_vars[prompt.task_type] = reference.vars if reference else NOTHING
        return prompts, prompt_vars

    def _tools(self, arena: Manifest, values: Values) -> dict[str, Tool]:
        return self._named(arena, "tool", values.get("tools", ()), values.get("tool_specs"), _make_tool)

    def _named(self, arena: Manifest, what: str, references: tuple[Reference, ...], inline: Any, make: "Maker[T]") -> dict[str, T]:
        found: dict[str, T] = {}
        places: dict[str, Location] = {}
        for document, node, ident in self._specs(arena, _KIND_OF[what], references, inline):
            if ident.name in places:
                self.files.problems.error(
                    ident.location, f"duplicate {what} '{ident.name}'", f"it is at {places[ident.name]} already; metadata.name is the id"
                )
                continue
            places[ident.name] = ident.location
            _note_other_name(document, node, ident, "name" if what == "tool" else "id")
            made = self.files.attempt(document, lambda document=document, node=node, ident=ident: make(document, node, ident))  # type: ignore[misc]
            if made is not None:
                found[ident.name] = made
        return found

    def _specs(self, arena: Manifest, kind: str, references: tuple[Reference, ...], inline: Any) -> Iterator[tuple[Document, Node, "_Ident"]]:
        for reference in references:
            manifest = self._open(reference, kind)
            if manifest is not None:
                yield manifest.document, manifest.spec, _Ident(manifest.name, manifest.location, reference, manifest.labels)
        for name, (key, node) in (inline or {}).items():
            if valid_id(arena.document, key, name):
                yield arena.document, node, _Ident(name, arena.document.at(key))

    def _open(self, reference: Reference, kind: str) -> Manifest | None:
        if kind != "Tool":
            return self.files.manifest(reference.file, reference.location, kind)
        opened = self.files.open(reference.file, reference.location)
        if opened is None:
            return None
        document, node = opened
        return self.files.attempt(document, lambda: _raw_tool(document, node) or read_manifest(document, node, kind))


@dataclass(frozen=True, slots=True)
class _Ident:
    """What a spec is called, and where and how it was named."""

    name: str
    location: Location
    reference: Reference | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


Maker = Callable[[Document, Node, _Ident], T | None]

_KIND_OF = {"scenario": "Scenario", "provider": "Provider", "tool": "Tool", "persona": "Persona", "eval": "Eval"}


def _raw_tool(document: Document, node: Node) -> Manifest | None:
    """Return a raw JSON descriptor (`name`, no `kind` and no `spec`) as if it were a manifest; None when it is none."""
    if not isinstance(node, MappingNode):
        return None
    present = entries(document, node)
    if "name" not in present or "kind" in present or "spec" in present or "metadata" in present:
        return None
    place = present["name"][1]
    if not isinstance(place, ScalarNode):
        return None
    name = str(place.value)
    return Manifest(document, node, name, {}, document.at(place)) if valid_id(document, place, name) else None


def _note_other_name(document: Document, node: Node, ident: _Ident, key: str) -> None:
    """Note a spec's own id that is not what it is called by: mock answers, filters and results go by the one that counts."""
    present = {name.value: value for name, value in node.value if isinstance(name, ScalarNode)} if isinstance(node, MappingNode) else {}
    own = present.get(key)
    if isinstance(own, ScalarNode) and own.value not in ("", ident.name):
        counts = "metadata.name" if ident.reference else "its key"
        document.problems.note(document.at(own), f"'{key}' is '{shown(own.value)}', and {counts} '{ident.name}' is what counts")


def _with_warnings(bundle: Bundle, problems: Problems) -> Bundle:
    return replace(bundle, warnings=problems.warnings())


def _scenario_maker(arena: ArenaSpec) -> Maker[Scenario]:
    def make(document: Document, node: Node, ident: _Ident) -> Scenario | None:
        fields = read_scenario(document, node)
        if fields is None:
            return None
        fields["labels"] = {**ident.labels, **fields.get("labels", {})}
        fields["conversation_assertions"] = (*arena.globals, *fields.get("conversation_assertions", ()))
        return Scenario(id=ident.name, file=document.file, location=ident.location, **fields)

    return make


def _eval_maker(arena: ArenaSpec) -> Maker[Evaluation]:
    def make(document: Document, node: Node, ident: _Ident) -> Evaluation | None:
        fields = read_evaluation(document, node)
        if fields is None:
            return None
        fields["conversation_assertions"] = (*arena.globals, *fields.get("conversation_assertions", ()))
        return Evaluation(id=ident.name, file=document.file, location=ident.location, **fields)

    return make


def _make_persona(document: Document, node: Node, ident: _Ident) -> Persona | None:
    fields = read_persona(document, node)
    return None if fields is None else Persona(id=ident.name, file=document.file, location=ident.location, **fields)


def _make_tool(document: Document, node: Node, ident: _Ident) -> Tool | None:
    fields = read_tool(document, node)
    return None if fields is None else Tool(name=ident.name, file=document.file, location=ident.location, **fields)
