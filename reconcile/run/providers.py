"""From a job's provider groups to the specs that the engine runs against: Providers and AgentRuntimes of the run's namespace, without secrets.

Source: the specification's `providers`, array mode and map mode.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.bundle.mock_reader import parse_mock_responses
from engine.errors import BundleInvalid
from engine.job_providers import ResolvedProvider
from reconcile.cluster.port import AGENT_RUNTIME, CONFIG_MAP, PROVIDER, Object, ResourceKind
from reconcile.errors import KindNotServed, NotFound
from reconcile.kinds.agent import RUNNING, with_port
from reconcile.kinds.job import ProviderEntry, provider_groups
from reconcile.kinds.reasons import RunReason
from reconcile.provider_spec import ProviderUnreadable, SecretWish, provider_spec
from reconcile.run.mocking import mocked
from reconcile.run.scope import RunRefused, RunScope

Groups = dict[str, tuple[ResolvedProvider, ...] | Mapping[str, ResolvedProvider]]

_OF_THE_MOCKED = ("type", "model", "role", "capabilities")


@dataclass(frozen=True, slots=True)
class JobsProviders:
    """A job's groups with every entry resolved, what their variables are to hold, and sentences on fields without an effect.

    `groups` is None when the job names no providers, so the bundle's own count.
    """

    groups: Groups | None = None
    wishes: dict[str, SecretWish] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


async def resolve_providers(run: RunScope) -> JobsProviders:
    """Read every object that the job's groups name: the groups by name, a map's entries by key, a list's as written, which numbers their variables.

    An array entry keeps its object's name as id; a map entry gets its key, which is the id that the arena config uses.

    Raises:
        RunRefused: an object does not exist, or cannot be read.
    """
    groups: Groups = {}
    resolving = _Resolving(run)
    for group, entries in sorted(provider_groups(run.template.providers).items()):
        if isinstance(entries, Mapping):
            groups[group] = {key: ResolvedProvider(key, await resolving.spec_of(entry)) for key, entry in sorted(entries.items())}
        else:
            groups[group] = tuple([ResolvedProvider(_name_of(entry), await resolving.spec_of(entry)) for entry in entries])
    return JobsProviders(groups or None, resolving.wishes, resolving.warnings)


def _name_of(entry: ProviderEntry) -> str:
    return entry.agent_ref.name if entry.agent_ref else entry.provider_ref.name if entry.provider_ref else ""


class _Resolving:
    """One look at the objects of a job, each of which is read once, so that an object named twice is the same provider."""

    def __init__(self, run: RunScope) -> None:
        self.wishes: dict[str, SecretWish] = {}
        self.warnings: list[str] = []
        self._run = run
        self._number = 0
        self._known: dict[tuple[bool, str], Mapping[str, Any]] = {}

    async def spec_of(self, entry: ProviderEntry) -> Mapping[str, Any]:
        name, is_agent = _name_of(entry), entry.agent_ref is not None
        if (is_agent, name) not in self._known:
            self._known[is_agent, name] = await (_agent(self._run, name) if is_agent else self._provider(name, self._number))
        self._number += 1
        return self._known[is_agent, name]

    async def _provider(self, name: str, number: int) -> Mapping[str, Any]:
        given = (await _read(self._run, PROVIDER, name))["spec"]
        if mocked(self._run.annotations) and given.get("type") != "mock":
            return {word: given[word] for word in _OF_THE_MOCKED if given.get(word)}
        try:
            found = provider_spec(name, given, number)
        except ProviderUnreadable as error:
            raise RunRefused(RunReason.INVALID_SPEC, f"cannot use Provider '{name}': {error}") from error
        self.wishes |= found.wishes
        if found.ignored:
            what = f"a {'mock' if found.spec['type'] == 'mock' else 'provider of type ' + found.spec['type']}"
            self.warnings.append(f"Provider '{name}' sets what has no effect on {what}: {', '.join(found.ignored)}")
        if not given.get("mock") or found.spec["type"] != "mock":
            return found.spec
        return {**found.spec, "additional_config": {"mock_answers": await _answers(self._run, name, given["mock"]["configMap"])}}


async def _agent(run: RunScope, name: str) -> Mapping[str, Any]:
    """Return the spec of an agent; of one that is not there to talk to yet, its trouble, with which its items end."""
    status = (await _read(run, AGENT_RUNTIME, name)).get("status") or {}
    phase, endpoint = status.get("phase") or "not deployed yet", status.get("serviceEndpoint") or ""
    spec = {"type": "agent", "agent": name, "namespace": run.namespace, "from_job": True}
    if phase == RUNNING and endpoint:
        return {**spec, "endpoint": with_port(endpoint)}
    said = f"is {phase}" if phase != RUNNING else "is Running and has no serviceEndpoint"
    return {**spec, "endpoint": "", "trouble": f"AgentRuntime '{name}' {said}"}


async def _read(run: RunScope, kind: ResourceKind, name: str) -> Object:
    try:
        return await run.cluster.get(kind, run.namespace, name)
    except (NotFound, KindNotServed) as error:
        raise RunRefused(
            RunReason.PROVIDER_NOT_FOUND,
            f"{kind} '{name}' does not exist in namespace '{run.namespace}'",
            hint=f"apply it, then start the run again; `arena get {kind.plural} -n {run.namespace}` lists those that exist",
        ) from error


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
