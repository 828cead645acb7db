"""From a job's provider groups to the specs that the engine runs against: Provider objects in the run's namespace, without secrets.

Source: the specification's `providers`, array mode and map mode.
"""

from collections.abc import Mapping
from typing import Any

from engine.plan import ResolvedProvider
from reconcile.cluster.port import CONFIG_MAP, PROVIDER
from reconcile.errors import NotFound
from reconcile.kinds.job import ProviderEntry, provider_groups
from reconcile.run.scope import RunRefused, RunScope

Groups = Mapping[str, tuple[ResolvedProvider, ...] | Mapping[str, ResolvedProvider]]

_COPIED = {"type": "type", "model": "model", "role": "role", "capabilities": "capabilities", "headers": "headers", "baseURL": "base_url"}
_DEFAULTS = {"temperature": "temperature", "topP": "top_p", "maxTokens": "max_tokens"}
_PRICES = {"inputCostPer1K": "input_cost_per_1k", "outputCostPer1K": "output_cost_per_1k"}


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
        raise RunRefused("NotSupported", "not supported yet: agentRef entries in spec.providers")
    name = entry.provider_ref.name
    try:
        provider = await run.cluster.get(PROVIDER, run.namespace, name)
    except NotFound as error:
        raise RunRefused(
            "ProviderNotFound",
            f"Provider '{name}' does not exist in namespace '{run.namespace}'",
            hint=f"apply it, then start the run again; `arena get providers -n {run.namespace}` lists those that exist",
        ) from error
    return ResolvedProvider(provider_id or name, await _spec(run, name, provider["spec"]))


async def _spec(run: RunScope, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Provider's spec in the bundle format's words. Decimal strings become numbers, as the format has them."""
    resolved: dict[str, Any] = {ours: spec[theirs] for theirs, ours in _COPIED.items() if spec.get(theirs) is not None}
    defaults = spec.get("defaults") or {}
    resolved["defaults"] = {
        ours: float(defaults[theirs]) if theirs != "maxTokens" else defaults[theirs] for theirs, ours in _DEFAULTS.items() if theirs in defaults
    }
    pricing = spec.get("pricing") or {}
    resolved["pricing"] = {ours: float(pricing[theirs]) for theirs, ours in _PRICES.items() if theirs in pricing}
    if spec.get("mock"):
        resolved["additional_config"] = {"mock_responses": await _answers(run, name, spec["mock"]["configMap"])}
    return {key: value for key, value in resolved.items() if value != {}}


async def _answers(run: RunScope, name: str, source: Mapping[str, str]) -> str:
    """Return the text of a mock's answers from its ConfigMap."""
    try:
        config_map = await run.cluster.get(CONFIG_MAP, run.namespace, source["name"])
        return str(config_map["data"][source["key"]])
    except (NotFound, KeyError) as error:
        raise RunRefused(
            "ProviderNotFound", f"Provider '{name}' names key '{source['key']}' of ConfigMap '{source['name']}', which does not exist"
        ) from error
