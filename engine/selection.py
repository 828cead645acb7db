"""Which scenarios run, and with which providers.

Owns scenario patterns and provider selection (promptkit-format.md 2.9), with what a job's provider groups change (specification 001). Pure. Must not
know trials, items or runs.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.bundle.evaluations import Evaluation
from engine.bundle.model import Bundle, Scenario
from engine.bundle.problems import did_you_mean, shown
from engine.bundle.provider_reader import SUBJECT_ROLES
from engine.errors import BundleInvalid, NoScenarios, ProviderNotFound
from foundation.errors import UnreadableGlob
from foundation.globs import compile_glob
from foundation.patterns import Pattern

DEFAULT_GROUP = "default"

Subject = Scenario | Evaluation
"""What an item is of."""


def scenario_glob(pattern: str) -> Pattern:
    """Compile a scenario pattern: a glob without `**`.

    Raises:
        BundleInvalid: it cannot be read; the message says why.
    """
    if "**" in pattern:
        raise _bad(pattern, "'**' has no meaning here", "write one '*' for each directory")
    try:
        return compile_glob(pattern)
    except UnreadableGlob as error:
        raise _bad(pattern, error.cause) from error


def _bad(pattern: str, cause: str, hint: str = "") -> BundleInvalid:
    return BundleInvalid(f"cannot read scenario pattern '{shown(pattern)}': {cause}", hint=hint)


def matches(pattern: str, subject: Subject) -> bool:
    """Say whether a pattern names a scenario or an eval: by id, by path relative to the bundle, or by the file's base name."""
    glob = scenario_glob(pattern)
    return any(glob.search(name) is not None for name in (subject.id, subject.file, subject.file.rpartition("/")[2]))


def select_subjects(bundle: Bundle, include: Sequence[str], exclude: Sequence[str], only: Sequence[str]) -> list[Subject]:
    """Return the scenarios to run, by id; where the bundle has none, its evals. `only` may name evals beside scenarios.

    `include` and `exclude` are patterns (no `include`: all); `only` are exact ids.

    Raises:
        BundleInvalid: a pattern cannot be read.
        NoScenarios: the bundle has none, an `only` id is unknown, an `include` pattern matches nothing, or nothing is left.
    """
    for pattern in (*include, *exclude):
        scenario_glob(pattern)
    subjects = subjects_of(bundle, only)
    if not subjects:
        raise NoScenarios(f"{bundle.arena_file}: cannot run the arena: it has no scenarios", hint="name scenario files in its 'scenarios'")
    for ident in only:
        if ident not in bundle.scenarios and ident not in bundle.evals:
            known = sorted({*bundle.scenarios, *bundle.evals})
            raise NoScenarios(f"cannot find scenario '{shown(ident)}'", hint=did_you_mean(ident, known, otherwise="scenarios are"))
    for pattern in include:
        if not any(matches(pattern, subject) for subject in subjects):
            hint = did_you_mean(
                pattern, [name for s in subjects for name in (s.id, s.file)], otherwise="a pattern matches ids, paths and file names, such as"
            )
            raise NoScenarios(f"cannot select scenarios: the pattern '{shown(pattern)}' matches none", hint=hint)
    included = [s for s in subjects if (not include or any(matches(p, s) for p in include)) and (not only or s.id in only)]
    left = [s for s in included if not any(matches(pattern, s) for pattern in exclude)]
    if not left:
        raise NoScenarios(
            f"cannot select scenarios: the filters leave none of the {len(subjects)}",
            hint="include, exclude and the chosen scenarios rule each other out",
        )
    return left


def subjects_of(bundle: Bundle, only: Collection[str] = ()) -> list[Subject]:
    """Return what may run, by id: the scenarios and those evals that `only` names; without scenarios, every eval (promptkit-format.md 3.8)."""
    evals = [found for ident, found in bundle.evals.items() if ident not in bundle.scenarios and (ident in only or not bundle.scenarios)]
    return sorted((*bundle.scenarios.values(), *evals), key=lambda subject: subject.id)


def idle_excludes(bundle: Bundle, exclude: Sequence[str]) -> list[str]:
    """Return a sentence for each `exclude` pattern that names no scenario of the bundle: what it was to keep out may run under another name."""
    idle = [pattern for pattern in exclude if not any(matches(pattern, subject) for subject in subjects_of(bundle))]
    return [f"the exclude pattern '{shown(pattern)}' matches no scenario" for pattern in idle]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A provider that may be tested. `serves` says that it is there for a judge or a self-play role, so a fallback must not test it.

    `by_key`: it is of a job's map, and stands for the provider of the config that has this id.
    """

    id: str
    group: str
    capabilities: tuple[str, ...] = ()
    serves: bool = False
    chosen_by_name_only: bool = False
    by_key: bool = False


@dataclass(frozen=True, slots=True)
class Pool:
    """The providers of a run: those that may be tested, and every id that may be named."""

    candidates: tuple[Candidate, ...]
    ids: frozenset[str]
    from_job: bool = False


def bundle_pool(bundle: Bundle) -> Pool:
    """Return the bundle's own providers; those of role llm and image may be tested."""
    serving = serving_providers(bundle)
    candidates = tuple(
        Candidate(provider.id, provider.group, provider.capabilities, serves=provider.id in serving)
        for provider in bundle.providers.values()
        if provider.role in SUBJECT_ROLES
    )
    return Pool(candidates, frozenset(bundle.providers))


def job_pool(bundle: Bundle, arrays: Mapping[str, Mapping[str, Collection[str]]], maps: Mapping[str, Mapping[str, Collection[str]]]) -> Pool:
    """Return a job's providers: group -> id -> declared capabilities. The bundle's own files then count only for the roles that ids play.

    An array's entries are tested where its group is asked for. A map's entries add nothing: they stand for ids of the config, and are tested when a
    scenario names them, or when the job has no arrays and the config itself would test that id. A group that serves a judge or a self-play role
    in the config is no fallback.
    """
    serving = serving_providers(bundle)
    serving_groups = {bundle.providers[ident].group for ident in serving if ident in bundle.providers}
    pooled = [
        Candidate(ident, group, tuple(capabilities), serves=ident in serving or (group in serving_groups and group != DEFAULT_GROUP))
        for group, entries in arrays.items()
        for ident, capabilities in entries.items()
    ]
    arrays_test = any(not candidate.serves for candidate in pooled)
    for group, entries in maps.items():
        for ident, capabilities in entries.items():
            own = bundle.providers.get(ident)
            if own is None or own.role in SUBJECT_ROLES:
                place = own.group if own else group
                serves = ident in serving
                pooled.append(Candidate(ident, place, tuple(capabilities), serves=serves, chosen_by_name_only=arrays_test, by_key=True))
    ids = frozenset(ident for groups in (arrays, maps) for entries in groups.values() for ident in entries)
    return Pool(tuple(pooled), ids, from_job=True)


def serving_providers(bundle: Bundle) -> frozenset[str]:
    """Return the ids of providers that judges and self-play roles name."""
    return frozenset([*(judge.provider for judge in bundle.arena.judges), *(role.provider for role in bundle.arena.roles)])


def check_known(pool: Pool, only: Iterable[str]) -> None:
    """Check the ids that a person asked for.

    Raises:
        ProviderNotFound: one of them is not in the pool.
    """
    for ident in only:
        if ident not in pool.ids:
            raise ProviderNotFound(f"cannot find provider '{shown(ident)}'", hint=did_you_mean(ident, sorted(pool.ids), otherwise="providers are"))


def select_providers(scenario: Scenario, pool: Pool, only: Sequence[str]) -> list[str]:
    """Return the ids of the providers to test a scenario with, sorted, or a job's as they are written; [] only when `only` leaves none.

    A list of the scenario counts as it stands; otherwise its group, or every provider that serves nobody when no provider is in that group; then
    its required capabilities.

    Raises:
        ProviderNotFound: the list names an unknown provider, or nothing can be tested before `only` is looked at.
    """
    named = _named_providers(scenario, pool) if scenario.providers else _grouped_providers(scenario, pool)
    chosen = sorted(ident for ident in named if not only or ident in only)
    if not pool.from_job:
        return chosen
    written = dict.fromkeys(candidate.id for candidate in pool.candidates)
    return [ident for ident in written if ident in chosen]


def candidates_of(scenario: Scenario, pool: Pool) -> list[Candidate]:
    """Return who may be tested with a scenario that names nobody: those of its group, else all that serve nobody."""
    by_group = [c for c in pool.candidates if not c.chosen_by_name_only]
    return [c for c in by_group if c.group == scenario.provider_group] or [c for c in by_group if not c.serves]


def capable_of(scenario: Scenario, candidates: Iterable[Candidate]) -> set[str]:
    """Return the ids of those that declare all that a scenario requires."""
    return {candidate.id for candidate in candidates if set(scenario.required_capabilities) <= set(candidate.capabilities)}


def fallback_warning(scenario: Scenario, pool: Pool) -> str:
    """Return a sentence when a scenario's group is not among a job's, so that it runs with all of them; "" otherwise, and for the default group."""
    by_group = not scenario.providers and scenario.provider_group != DEFAULT_GROUP
    if not by_group or not pool.from_job or any(candidate.group == scenario.provider_group for candidate in pool.candidates):
        return ""
    return f"{scenario.location}: no provider of the job is in the group '{scenario.provider_group}' of scenario '{scenario.id}': it runs with all of them"


def _named_providers(scenario: Scenario, pool: Pool) -> set[str]:
    candidates = {candidate.id for candidate in pool.candidates}
    for ident in scenario.providers or ():
        if ident not in candidates:
            place = f"{scenario.location}: cannot run scenario '{scenario.id}'"
            if ident in pool.ids:
                raise ProviderNotFound(f"{place}: provider '{shown(ident)}' is no model that can be tested", hint="its role is not llm or image")
            whose = "the job's providers do not have" if pool.from_job else "the bundle does not have"
            hint = did_you_mean(ident, sorted(candidates), otherwise="providers are")
            raise ProviderNotFound(f"{place}: {whose} provider '{shown(ident)}'", hint=hint)
    return set(scenario.providers or ())


def _grouped_providers(scenario: Scenario, pool: Pool) -> set[str]:
    place = f"{scenario.location}: cannot run scenario '{scenario.id}'"
    chosen = candidates_of(scenario, pool)
    if not chosen:
        groups = sorted({c.group for c in pool.candidates if not c.chosen_by_name_only})
        hint = f"providers are in the groups: {', '.join(groups)}" if groups else "name provider files in the arena's 'providers'"
        raise ProviderNotFound(f"{place}: no provider is in its group '{scenario.provider_group}'", hint=hint)
    capable = capable_of(scenario, chosen)
    if not capable:
        wanted = ", ".join(scenario.required_capabilities)
        raise ProviderNotFound(
            f"{place}: no provider declares all of its required capabilities: {wanted}", hint="providers declare them in 'capabilities'"
        )
    return capable


def check_serving(bundle: Bundle) -> None:
    """Check that judges and self-play roles name providers that the bundle has.

    Raises:
        ProviderNotFound: one does not; the message names it.
    """
    named = [(j.provider, f"judge '{j.name}'", j.location) for j in bundle.arena.judges]
    named += [(r.provider, f"self-play role '{r.id}'", r.location) for r in bundle.arena.roles]
    for ident, who, place in named:
        if ident not in bundle.providers:
            hint = did_you_mean(ident, bundle.providers, otherwise="add its file to the arena's providers, which are")
            raise ProviderNotFound(f"{place}: {who} names provider '{shown(ident)}', which the bundle does not have", hint=hint)


def check_roles(bundle: Bundle, subjects: Iterable[Subject], serving: Collection[str]) -> None:
    """Check that somebody speaks for every self-play role of the chosen scenarios.

    Raises:
        ProviderNotFound: for one nobody does; the message names the turn.
    """
    providers = {role.id: role.provider for role in bundle.arena.roles}
    for turn in (turn for subject in subjects if isinstance(subject, Scenario) for turn in subject.turns):
        provider = providers.get(turn.role)
        if provider is not None and provider not in serving:
            raise ProviderNotFound(
                f"{turn.location}: no provider speaks for the self-play role '{shown(turn.role)}': the job's providers do not have '{shown(provider)}'",
                hint="bring it in a group of the job that is a map, under that key",
            )
