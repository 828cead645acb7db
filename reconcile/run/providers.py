"""From a job's provider groups to the specs that the engine runs against: Provider objects in the run's namespace, without secrets.

Source: the specification's `providers`, array mode and map mode.
"""

from collections.abc import Mapping
from typing import Any

from engine.bundle.mock_reader import parse_mock_responses
from engine.errors import BundleInvalid
from engine.job_providers import ResolvedProvider
from reconcile.cluster.port import CONFIG_MAP, PROVIDER
from reconcile.errors import KindNotServed, NotFound
from reconcile.kinds.job import ProviderEntry, provider_groups
from reconcile.kinds.reasons import RunReason
from reconcile.run.mocking import mocked
from reconcile.run.scope import RunRefused, RunScope

Groups = Mapping[str, tuple[ResolvedProvider, ...] | Mapping[str, ResolvedProvider]]

_COPIED = ("type", "model", "role", "capabilities")
_DEFAULTS = {"temperature": "temperature", "topP": "top_p", "maxTokens": "max_tokens"}
_MOCK_FIELDS = frozenset({*_COPIED, "defaults", "mock"})
"""What has an effect on a mock; a mock that sets anything else is refused, so that no field is read and ignored."""


async def resolve_providers(run: RunScope) -> Groups | None:
    """Return the job's groups with every entry resolved; None when the job names no providers, so the bundle's own count.

    An array entry keeps its Provider's name as id; a map entry gets its key, which is the id that the arena config uses.
    """
    groups: dict[str, tuple[ResolvedProvider, ...] | Mapping[str, ResolvedProvider]] = {}
    for group, entries in provider_groups(run.template.providers).items():
        if isinstance(entries, Mapping):
            groups[group] = {key: await _resolve(run, entry, key) for key, entry in entries.items()}
        else:
            groups[group] = tuple([await _resolve(run, entry) for entry in entries])
    return groups or None


async def _resolve(run: RunScope, entry: ProviderEntry, provider_id: str = "") -> ResolvedProvider:
    if entry.provider_ref is None:
        raise RunRefused(RunReason.NOT_SUPPORTED, "not supported yet: agentRef entries in spec.providers")
    name = entry.provider_ref.name
    try:
        provider = await run.cluster.get(PROVIDER, run.namespace, name)
    except (NotFound, KindNotServed) as error:
        raise RunRefused(
            RunReason.PROVIDER_NOT_FOUND,
            f"Provider '{name}' does not exist in namespace '{run.namespace}'",
            hint=f"apply it, then start the run again; `arena get providers -n {run.namespace}` lists those that exist",
        ) from error
    return ResolvedProvider(provider_id or name, await _spec(run, name, provider["spec"]))


async def _spec(run: RunScope, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Provider's spec in the bundle format's words. Decimal strings become numbers, as the format has them.

    Of a provider that the mock replaces, or that the engine refuses by its type, nothing more is looked at.
    """
    resolved: dict[str, Any] = {field: spec[field] for field in _COPIED if spec.get(field)}
    if mocked(run.annotations) or spec["type"] != "mock":
        return resolved
    ignored = sorted(field for field in spec if field not in _MOCK_FIELDS and spec[field])
    if ignored:
        raise RunRefused(
            RunReason.NOT_SUPPORTED, f"Provider '{name}' sets what has no effect on a mock: {', '.join(f'spec.{field}' for field in ignored)}"
        )
    defaults = spec.get("defaults") or {}
    unknown = sorted(defaults.keys() - _DEFAULTS.keys())
    if unknown:
        raise RunRefused(
            RunReason.NOT_SUPPORTED, f"not supported yet: {', '.join(f'spec.defaults.{field}' for field in unknown)} of Provider '{name}'"
        )
    resolved["defaults"] = {
        ours: float(defaults[theirs]) if theirs != "maxTokens" else defaults[theirs] for theirs, ours in _DEFAULTS.items() if theirs in defaults
    }
    if spec.get("mock"):
        resolved["additional_config"] = {"mock_answers": await _answers(run, name, spec["mock"]["configMap"])}
    return resolved


async def _answers(run: RunScope, name: str, source: Mapping[str, str]) -> str:
    """Return the text of a mock's answers from its ConfigMap, checked."""
    where = f"key '{source['key']}' of ConfigMap '{source['name']}'"
    try:
        config_map = await run.cluster.get(CONFIG_MAP, run.namespace, source["name"])
        text = str(config_map["data"][source["key"]])
    except (NotFound, KeyError) as error:
        raise RunRefused(RunReason.PROVIDER_NOT_FOUND, f"Provider '{name}' names {where}, which does not exist") from error
    try:
        parse_mock_responses(text, where)
    except BundleInvalid as error:
        raise RunRefused(RunReason.BUNDLE_INVALID, error.message, hint=error.hint) from error
    return text
