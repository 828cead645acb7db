"""Where the keys of a job's providers come from: which key of which Secret each variable of the workers will hold, found when the run is planned.

The names go into the plan, the values nowhere: a cluster's kubelet, or the job runner of one machine, reads them when a worker starts.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from engine.plan import Plan
from reconcile.cluster.core_kinds import value_in
from reconcile.cluster.port import CONFIG_MAP, SECRET, Object, ResourceKind
from reconcile.errors import NotFound
from reconcile.kinds.job_pods import EnvVar
from reconcile.provider_spec import SecretWish
from reconcile.run.job_creation import waiting_for_job
from reconcile.run.scope import RunScope


async def find_secrets(run: RunScope, plan: Plan, wishes: Mapping[str, SecretWish]) -> dict[str, tuple[str, str]]:
    """Return the Secret and the key behind each variable that the plan's providers name; entries that the plan does without ask for none.

    Raises:
        Waiting: a Secret or its key is not there; the message names both.
    """
    named = {variable for spec in (*plan.providers.values(), *plan.serving.values()) for variable in _variables(spec)}
    found: dict[str, tuple[str, str]] = {}
    for variable in sorted(wishes.keys() & named):
        wish = wishes[variable]
        secret = await _read(run, SECRET, wish.secret)
        key = next((key for key in wish.keys if secret is not None and value_in(secret, key)), None)
        if key is None:
            raise waiting_for_job(run, _missing(f"Provider '{wish.provider}' needs", SECRET, wish.secret, wish.keys, is_there=secret is not None))
        found[variable] = (wish.secret, key)
    return found


async def check_secrets(run: RunScope) -> None:
    """See to it that what workers get by reference is there before any is started, also when they are started again.

    On a cluster the references of podOverrides are the kubelet's to follow, and it says what it misses.

    Raises:
        Waiting: something is not there.
    """
    for name, key in run.planned().secrets.values():
        await _check(run, SECRET, name, key, "a provider needs")
    overrides = run.template.workers.pod_overrides
    if run.pods is not None or overrides is None:
        return
    for place, variable in enumerate(overrides.extra_env):
        for kind, name, key in _references(variable):
            await _check(run, kind, name, key, f"podOverrides.extraEnv[{place}] needs")
    for place, source in enumerate(overrides.extra_env_from):
        for kind, reference in ((SECRET, source.secret_ref), (CONFIG_MAP, source.config_map_ref)):
            if reference is not None and not reference.optional:
                await _check(run, kind, reference.name, "", f"podOverrides.extraEnvFrom[{place}] needs")


def _references(variable: EnvVar) -> Iterable[tuple[ResourceKind, str, str]]:
    for kind, field in ((SECRET, "secretKeyRef"), (CONFIG_MAP, "configMapKeyRef")):
        reference = (variable.value_from or {}).get(field)
        if isinstance(reference, Mapping) and not reference.get("optional"):
            yield kind, str(reference.get("name")), str(reference.get("key"))


async def _check(run: RunScope, kind: ResourceKind, name: str, key: str, who: str) -> None:
    found = await _read(run, kind, name)
    if found is None or (key and key not in (found.get("data") or {})):
        raise waiting_for_job(run, _missing(who, kind, name, (key,) if key else (), is_there=found is not None))


async def _read(run: RunScope, kind: ResourceKind, name: str) -> Object | None:
    try:
        return await run.cluster.get(kind, run.namespace, name)
    except NotFound:
        return None


def _missing(who: str, kind: ResourceKind, name: str, keys: tuple[str, ...], *, is_there: bool) -> str:
    wanted = " or ".join(f"'{key}'" for key in keys)
    what = f"key {wanted} of {kind} '{name}'" if keys else f"{kind} '{name}'"
    return f"{who} {what}, {'which has no such key' if is_there else 'which does not exist'}"


def _variables(spec: Mapping[str, Any]) -> Iterable[str]:
    yield (spec.get("credential") or {}).get("credential_env", "")
    yield from ((spec.get("auth") or {}).get("variables") or {}).values()
