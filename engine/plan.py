"""A plan: scenarios x providers x trials (x perturbations) as items with ids that are equal in every run.

Owns the matrix, its order and its bytes. A plan is made once and then only read; it carries resolved provider specs without secrets, and no file.
Pure but for one look at the mock response file that an override names. Must not know queues, workers or runs.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from engine.bundle.evaluations import Evaluation
from engine.bundle.mock_reader import load_mock_responses
from engine.bundle.model import Bundle, Provider
from engine.bundle.model_names import models_needed
from engine.bundle.paths import join
from engine.bundle.perturbations import Variant, count_variants, variants_of
from engine.bundle.problems import shown
from engine.bundle.recordings import recordings_of
from engine.bundle.registry_tools import RegistryTool
from engine.errors import BundleInvalid, EngineVersionMismatch, MatrixTooLarge, ProviderNotFound
from engine.items import EVAL_PROVIDER, Item
from engine.job_providers import JobProviders, check_served, check_whole, pool_of, specs_of
from engine.permissions import NO_PERMISSIONS, Permissions
from engine.plan_notes import provider_notes
from engine.provider_specs import mock_server, mock_subject
from engine.providers.prices import Price, price_of
from engine.selection import (
    Pool,
    Subject,
    bundle_pool,
    check_known,
    check_roles,
    check_serving,
    fallback_warning,
    idle_excludes,
    select_providers,
    select_subjects,
    serving_providers,
)
from engine.version import ENGINE_VERSION

EVALUATION_ITEM_CAP = 10_000
DEFAULT_ITEM_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class MockOverride:
    """Replace every provider by the mock, judges and self-play roles included.

    `config` is a response file, relative to the bundle's config directory or root; None: each provider's own response file, or the generic reply.
    An absolute path is allowed only with `outside` (`arena eval`, where the person at the keyboard names it).
    """

    config: str | None = None
    outside: bool = False


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What to run of a bundle.

    `trials` overrides every scenario's own. `include` and `exclude` are patterns; `only_scenarios` and `only_providers` are exact ids. `providers`
    are a job's: the bundle's own are then ignored. `tools` are those that a job's registries have, by name.
    """

    arena_file: str = "config.arena.yaml"
    trials: int | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    providers: JobProviders | None = None
    mock: MockOverride | None = None
    item_cap: int = EVALUATION_ITEM_CAP
    only_scenarios: tuple[str, ...] = ()
    only_providers: tuple[str, ...] = ()
    tools: Mapping[str, RegistryTool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How workers treat the items; copied into the plan.

    `permissions` are the operator's, and so are `prices`, by model, where the packaged ones do not count. `item_timeout_s` None takes the arena's `defaults.run_timeout`, or 600. `retry_backoff_s` is the first delay. `confidence` is 0 to 1.
    """

    item_timeout_s: float | None = None
    max_attempts: int = 3
    retry_backoff_s: float = 1.0
    concurrency: int = 16
    image: str = ""
    confidence: float = 0.95
    permissions: Permissions = NO_PERMISSIONS
    prices: Mapping[str, Price] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """A scenario with a provider: `trials` times each variant."""

    scenario: str
    provider: str
    trials: int
    variants: tuple[Variant, ...]


@dataclass(frozen=True)
class Plan:
    """What a run does, fixed before it begins.

    `providers` holds a spec for each provider of an item, `serving` one for each that a judge or a self-play role names: one provider may be both, and
    under the override the two differ (`engine.provider_specs`). In a spec, `additional_config.mock_config` is relative to the bundle's root (absolute only for a file that `arena eval` named outside it). `mocked` is the
    override that was asked for; the specs have it applied already. `trials` is the highest of any scenario. `warnings` are sentences. `tools` are a
    registry's, called instead of the bundle's of those names. `secrets` says where the variable of each key of a job's provider comes from, in words
    of whoever starts workers: the name of a secret, and a key in it. `own_providers`: the bundle's models are asked, no job's. `prices` come before the packaged ones, so that a run costs the same wherever it is worked.
    """

    engine_version: str
    arena_file: str
    mocked: MockOverride | None
    cells: tuple[Cell, ...]
    providers: Mapping[str, Mapping[str, Any]]
    serving: Mapping[str, Mapping[str, Any]]
    scenarios: tuple[str, ...]
    trials: int
    item_timeout_s: float
    max_attempts: int
    retry_backoff_s: float
    concurrency: int
    image: str
    confidence: float
    permissions: Permissions
    warnings: tuple[str, ...] = field(default=())
    tools: Mapping[str, RegistryTool] = field(default_factory=dict)
    secrets: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=dict)
    own_providers: bool = True

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """Return the items in order: scenario, provider, trial, perturbation. `index` is the place."""
        found: list[Item] = []
        for cell in self.cells:
            for trial in range(1, cell.trials + 1):
                for variant in cell.variants:
                    found.append(Item(len(found), cell.scenario, cell.provider, trial, variant.label, variant.values))
        return tuple(found)

    def to_bytes(self) -> bytes:
        """Return the canonical JSON: sorted keys, no spaces, UTF-8. Equal plans give equal bytes."""
        return json.dumps(self._to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()

    @cached_property
    def digest(self) -> str:
        """Return `sha256:…` of the bytes."""
        return digest_of(self.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes, *, engine_version: str | None = None) -> "Plan":
        """Read what `to_bytes` wrote. With `engine_version`, a plan of any other version is refused.

        Raises:
            EngineVersionMismatch: the plan was made by another engine version.
            ValueError: these bytes are no plan.
        """
        try:
            content = json.loads(data)
            made_by = content["engineVersion"]
            if engine_version is not None and made_by != engine_version:
                raise EngineVersionMismatch(
                    f"cannot run the plan: it was made by engine version {made_by}, this one is {engine_version}",
                    hint="use a worker of the version that made the plan",
                )
            return cls._from_json(content)
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"cannot read the plan: {error!r}") from error

    def _to_json(self) -> dict[str, Any]:
        mocked = None if self.mocked is None else {"config": self.mocked.config, "outside": self.mocked.outside}
        return {
            "engineVersion": self.engine_version,
            "arenaFile": self.arena_file,
            "mocked": mocked,
            "cells": [[c.scenario, c.provider, c.trials, [[v.label, [list(pair) for pair in v.values]] for v in c.variants]] for c in self.cells],
            "providers": dict(self.providers),
            "serving": dict(self.serving),
            "scenarios": list(self.scenarios),
            "trials": self.trials,
            "itemTimeoutS": self.item_timeout_s,
            "maxAttempts": self.max_attempts,
            "retryBackoffS": self.retry_backoff_s,
            "concurrency": self.concurrency,
            "image": self.image,
            "confidence": self.confidence,
            "permissions": self.permissions.to_json(),
            "warnings": list(self.warnings),
            "tools": {name: [tool.endpoint, tool.description] for name, tool in self.tools.items()},
            "ownProviders": self.own_providers,
            "secrets": {variable: list(place) for variable, place in self.secrets.items()},
            "prices": {model: price.to_json() for model, price in self.prices.items()},
        }

    @classmethod
    def _from_json(cls, content: Mapping[str, Any]) -> "Plan":
        mocked = content["mocked"]
        return cls(
            engine_version=content["engineVersion"],
            arena_file=content["arenaFile"],
            mocked=None if mocked is None else MockOverride(mocked["config"], mocked["outside"]),
            cells=tuple(
                Cell(scenario, provider, trials, tuple(Variant(label, tuple((k, v) for k, v in values)) for label, values in variants))
                for scenario, provider, trials, variants in content["cells"]
            ),
            providers=content["providers"],
            serving=content["serving"],
            scenarios=tuple(content["scenarios"]),
            trials=content["trials"],
            item_timeout_s=content["itemTimeoutS"],
            max_attempts=content["maxAttempts"],
            retry_backoff_s=content["retryBackoffS"],
            concurrency=content["concurrency"],
            image=content["image"],
            confidence=content["confidence"],
            permissions=Permissions.from_json(content["permissions"]),
            warnings=tuple(content["warnings"]),
            tools={name: RegistryTool(*tool) for name, tool in content["tools"].items()},
            own_providers=content["ownProviders"],
            secrets={variable: (name, key) for variable, (name, key) in content["secrets"].items()},
            prices={model: price_of(entry, f"model '{model}' of the plan") for model, entry in content["prices"].items()},
        )


@dataclass(frozen=True, slots=True)
class _Row:
    """A scenario with all its providers, or an eval with all its recordings."""

    subject: Subject
    providers: list[str]
    trials: int
    recordings: tuple[Variant, ...] = ()

    @property
    def items(self) -> int:
        """Return how many items there would be."""
        variants = len(self.recordings) if isinstance(self.subject, Evaluation) else count_variants(self.subject)
        return len(self.providers) * self.trials * variants

    def cells(self) -> Iterator[Cell]:
        """Yield the row's cells."""
        variants = self.recordings if isinstance(self.subject, Evaluation) else variants_of(self.subject)
        yield from (Cell(self.subject.id, provider, self.trials, variants) for provider in self.providers)


def digest_of(data: bytes) -> str:
    """Return the digest of a plan's bytes, `sha256:…`."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def make_plan(bundle: Bundle, request: PlanRequest, options: WorkerOptions = WorkerOptions()) -> Plan:
    """Make the plan of a run. The same bundle, request and options give the same bytes.

    Raises:
        NoScenarios: the filters leave none.
        ProviderNotFound: a scenario or a filter names a provider that is not there, a scenario has none to run with, or a job has two of one name.
        MatrixTooLarge: there would be more items than `request.item_cap`.
        BundleInvalid: a pattern cannot be read, or the override's response file cannot.
    """
    override = _checked_override(bundle, request.mock)
    subjects = select_subjects(bundle, request.include, request.exclude, request.only_scenarios)
    pool = _pool(bundle, request)
    check_known(pool, request.only_providers)
    rows, warnings = _rows(bundle, subjects, pool, request)
    cells = _cells(rows, request.item_cap)
    specs = _specs(bundle, request.providers)
    used, serving = (
        {cell.provider for cell in cells if cell.scenario in bundle.scenarios},
        (serving_providers(bundle) | models_needed(bundle)) & specs.keys(),
    )
    check_roles(bundle, [row.subject for row in rows], serving)
    if request.providers is not None:
        check_whole(bundle, pool, [row.subject for row in rows])
        check_served(bundle, [row.subject for row in rows], specs)
    config = override.config if override else None
    tested = {ident: mock_subject(specs[ident], config) if override else specs[ident] for ident in sorted(used)}
    served = {ident: mock_server(specs[ident], config) if override else specs[ident] for ident in sorted(serving)}
    return Plan(
        engine_version=ENGINE_VERSION,
        arena_file=bundle.arena_file,
        mocked=override,
        cells=cells,
        providers=tested,
        serving=served,
        scenarios=tuple(dict.fromkeys(cell.scenario for cell in cells)),
        trials=max(cell.trials for cell in cells),
        item_timeout_s=options.item_timeout_s or bundle.arena.run_timeout_s or DEFAULT_ITEM_TIMEOUT_S,
        max_attempts=options.max_attempts,
        retry_backoff_s=options.retry_backoff_s,
        concurrency=options.concurrency,
        image=options.image,
        confidence=options.confidence,
        permissions=options.permissions,
        warnings=(
            *idle_excludes(bundle, request.exclude),
            *warnings,
            *provider_notes(bundle, cells, tested, served, options.prices),
        ),
        prices=options.prices,
        own_providers=request.providers is None,
        tools={name: tool for name, tool in request.tools.items() if name in bundle.tools},
    )


def _rows(bundle: Bundle, subjects: list[Subject], pool: Pool, request: PlanRequest) -> tuple[list[_Row], list[str]]:
    rows: list[_Row] = []
    warnings: list[str] = []
    for subject in subjects:
        if isinstance(subject, Evaluation):
            rows.append(_Row(subject, [EVAL_PROVIDER], 1, recordings_of(bundle, subject)))
            continue
        providers = select_providers(subject, pool, request.only_providers)
        if providers:
            warnings += [warning] if (warning := fallback_warning(subject, pool)) else []
            rows.append(_Row(subject, providers, request.trials if request.trials is not None else subject.trials or 1))
        else:
            warnings.append(f"{subject.location}: scenario '{subject.id}' does not run: none of the chosen providers is among its own")
    if not rows:
        chosen = ", ".join(request.only_providers)
        raise ProviderNotFound(
            f"cannot run anything: no selected scenario runs with: {chosen}", hint="scenarios choose by provider list, group and capabilities"
        )
    return rows, warnings


def _cells(rows: list[_Row], cap: int) -> tuple[Cell, ...]:
    items = sum(row.items for row in rows)
    if items > cap:
        raise MatrixTooLarge(f"cannot plan the run: {items} items are over the cap of {cap}", hint="choose fewer scenarios, providers or trials")
    return tuple(cell for row in rows for cell in row.cells())


def _pool(bundle: Bundle, request: PlanRequest) -> Pool:
    if request.providers is None:
        check_serving(bundle)
        return bundle_pool(bundle)
    return pool_of(bundle, request.providers)


def _specs(bundle: Bundle, job: JobProviders | None) -> dict[str, dict[str, Any]]:
    if job is not None:
        return specs_of(bundle, job, serving_providers(bundle) | models_needed(bundle))
    return {provider.id: _spec_of(provider) for provider in bundle.providers.values()}


def _spec_of(provider: Provider) -> dict[str, Any]:
    return {**provider.spec, "id": provider.id}


def _checked_override(bundle: Bundle, override: MockOverride | None) -> MockOverride | None:
    if override is None or override.config is None:
        return override
    config, outside = override.config, False
    if config.startswith("/"):
        real, root = os.path.realpath(config), str(bundle.root).rstrip("/") + "/"
        outside = not real.startswith(root)
        if outside and not override.outside:
            raise _leaves(config)
        config = real if outside else real[len(root) :]
    else:
        config = _inside(bundle, config)
    load_mock_responses(bundle.root, config)
    return MockOverride(config, outside)


def _inside(bundle: Bundle, config: str) -> str:
    paths = [path for base in dict.fromkeys((bundle.arena.config_dir, "")) if (path := join(base, config)) is not None]
    if not paths:
        raise _leaves(config)
    return next((path for path in paths if bundle.resolve_path(path).is_file()), paths[0])


def _leaves(config: str) -> BundleInvalid:
    return BundleInvalid(f"cannot use mock responses '{shown(config)}': the path leaves the bundle", hint="name a file inside the bundle")
