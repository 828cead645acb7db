"""The providers that a job brings instead of the bundle's: their groups, and the spec behind every id that the config expects.

Source: the specification's `providers`, array mode and map mode. Pure. Must not know where a provider's spec comes from, nor items.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.bundle.judge_names import asking_of, judges_needed
from engine.bundle.model import Bundle, Scenario
from engine.bundle.model_names import models_needed
from engine.bundle.problems import did_you_mean, shown
from engine.bundle.provider_reader import SUBJECT_ROLES
from engine.errors import ProviderNotFound
from engine.selection import DEFAULT_GROUP, Pool, bundle_pool, candidates_of, capable_of, job_pool, serving_providers

if TYPE_CHECKING:
    from engine.bundle.evaluations import Evaluation


@dataclass(frozen=True, slots=True)
class ResolvedProvider:
    """A provider that a job brings: its id, and its spec as a Provider file of the bundle would have it, without secrets."""

    id: str
    spec: Mapping[str, Any]


JobProviders = Mapping[str, tuple[ResolvedProvider, ...] | Mapping[str, ResolvedProvider]]
"""Group -> entries: a tuple is array mode (test subjects, in written order), a mapping is map mode (keyed by the config's provider id)."""


def pool_of(bundle: Bundle, job: JobProviders) -> Pool:
    """Return the job's providers as those that may be tested; one whose role is not to hold conversations serves alone, in whatever group it is.

    Raises:
        ProviderNotFound: a map has a key that is no id of the config.
    """
    _check_keys(bundle, job)
    arrays = {group: {entry.id: _capabilities(entry) for entry in entries} for group, entries in job.items() if not isinstance(entries, Mapping)}
    maps = {
        group: {ident: _capabilities(entry) for ident, entry in entries.items()} for group, entries in job.items() if isinstance(entries, Mapping)
    }
    pool = job_pool(bundle, arrays, maps)
    others = {ident for ident, entry in _entries(job) if entry.spec.get("role", "llm") not in SUBJECT_ROLES}
    return replace(pool, candidates=tuple(candidate for candidate in pool.candidates if candidate.id not in others))


def check_whole(bundle: Bundle, pool: Pool, chosen: "Iterable[Scenario | Evaluation]") -> None:
    """Check that maps of a job, where they say who is tested, bring every provider that the config would test. `pool` is the job's.

    Raises:
        ProviderNotFound: they do not, and the matrix would be smaller than the config's; the message names a scenario and a provider. Lists say by
            themselves who is tested.
    """
    own = bundle_pool(bundle)
    for scenario in (subject for subject in chosen if isinstance(subject, Scenario) and not subject.providers):
        brought = candidates_of(scenario, pool)
        missing = capable_of(scenario, candidates_of(scenario, own)) - capable_of(scenario, brought)
        if missing and all(candidate.by_key for candidate in brought):
            place = f"{scenario.location}: cannot run scenario '{scenario.id}'"
            raise ProviderNotFound(
                f"{place}: the config tests provider '{shown(min(missing))}', which no map of the job's providers brings",
                hint="bring it under that key, in a role and with capabilities that can be tested so, or make the group a list, whose entries alone are tested",
            )


def specs_of(bundle: Bundle, job: JobProviders, needed: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the spec of every id that the job brings.

    An id among `needed` (those of judges, self-play roles and models) that the job does not spell out is the only entry of the list that bears the
    name of the id's group in the config: a group `judge` with one entry judges under whatever id the config gave its judge. Not so the default group,
    whose entries are there to be tested.

    Raises:
        ProviderNotFound: two different entries have one id.
    """
    specs: dict[str, dict[str, Any]] = {}
    for ident, entry in _entries(job):
        spec = {**entry.spec, "id": ident}
        if specs.setdefault(ident, spec) != spec:
            raise ProviderNotFound(
                f"cannot tell the job's providers apart: two different ones are called '{shown(ident)}'",
                hint="an entry of a list goes by its resource's name, one of a map by its key: rename one of them",
            )
    for ident in needed:
        own = bundle.providers.get(ident)
        group = job.get(own.group, ()) if own and own.group != DEFAULT_GROUP else ()
        if ident not in specs and isinstance(group, tuple) and len(group) == 1:
            specs[ident] = {**group[0].spec, "id": ident}
    return specs


def check_served(bundle: Bundle, chosen: "Sequence[Scenario | Evaluation]", specs: Mapping[str, Any]) -> None:
    """Check that a job brings every provider that judges, labels or embeds for the chosen scenarios and evals.

    Raises:
        ProviderNotFound: it does not; the message names the id that the config expects, and who asks for it.
    """
    judges = {judge.name: judge for judge in bundle.arena.judges}
    named = [judges[name] for _, kind, params in asking_of(bundle, chosen) for name in judges_needed(bundle, kind, params) if name in judges]
    asked = [(judge.provider, f"judge '{judge.name}'", judge.location) for judge in named]
    asked += [(ident, "a check", bundle.arena.location) for ident in sorted(models_needed(bundle, chosen))]
    for ident, who, place in asked:
        if ident not in specs:
            own = bundle.providers.get(ident)
            alone = f", or as the only entry of the list '{own.group}'" if own and own.group != DEFAULT_GROUP else ""
            raise ProviderNotFound(
                f"{place}: {who} asks provider '{shown(ident)}', which the job's providers do not have",
                hint=f"bring it in a group of the job that is a map, under that key{alone}",
            )


def _check_keys(bundle: Bundle, job: JobProviders) -> None:
    """Refuse a key of a map that stands for nothing: a slip would test one more provider, or leave out the one that was meant."""
    known = {*bundle.providers, *serving_providers(bundle), *bundle.arena.inference.values()}
    known |= {ident for scenario in bundle.scenarios.values() for ident in scenario.providers or ()}
    for group, entries in job.items():
        for key in entries if isinstance(entries, Mapping) else ():
            if key not in known:
                what = f"the job's group '{shown(group)}' is a map, and its key '{shown(key)}' is no provider id of the config"
                hint = did_you_mean(key, sorted(known), otherwise="make the group a list, whose entries go by their objects' names, or use one of")
                raise ProviderNotFound(f"cannot place a provider: {what}", hint=hint)


def _capabilities(entry: ResolvedProvider) -> tuple[str, ...]:
    return tuple(entry.spec.get("capabilities") or ())


def _entries(job: JobProviders) -> Iterator[tuple[str, ResolvedProvider]]:
    for entries in job.values():
        yield from entries.items() if isinstance(entries, Mapping) else ((entry.id, entry) for entry in entries)
