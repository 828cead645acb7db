"""The variables that a Job gives its processes, with what Secrets and ConfigMaps of its namespace hold, read afresh for each process.

Values pass through here to the process, and are written nowhere. Must not know how a process is started.
"""

from collections.abc import Mapping
from typing import Any

from arena.local.worker_order import Reference, Variable, VariablesFrom, WorkerOrder
from engine import worker_settings
from reconcile.cluster.core_kinds import value_in
from reconcile.cluster.port import CONFIG_MAP, SECRET, Cluster, ResourceKind
from reconcile.errors import NotFound


class NotThere(Exception):
    """Something that a variable refers to does not exist; the text names it."""


class WorkerVariables:
    """Reads the variables of Jobs of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace

    async def of(self, order: WorkerOrder) -> dict[str, str]:
        """Return the variables of a Job's processes, the queue's address aside. Those that are not a worker's own come packed into one.

        Raises:
            NotThere: what a variable refers to does not exist, and is not optional.
        """
        own: dict[str, str] = {}
        given: dict[str, str] = {}
        for source in order.container.env_from:
            given |= await self._all_of(source)
        for variable in order.container.env:
            value = None if variable.name == worker_settings.REDIS_URL else await self._value(variable)
            if value is not None:
                (own if variable.is_own else given)[variable.name] = value
        return own | worker_settings.packed(given)

    async def text(self, kind: ResourceKind, reference: Reference) -> str:
        """Return what stands under a key.

        Raises:
            NotThere: nothing does.
        """
        found = await self._data(kind, reference)
        if reference.key not in found:
            raise NotThere(f"key '{reference.key}' of {kind} '{reference.name}'")
        return found[reference.key]

    async def _value(self, variable: Variable) -> str | None:
        source = variable.value_from
        if source is None:
            return variable.value
        kind, reference = (SECRET, source.secret_key_ref) if source.secret_key_ref else (CONFIG_MAP, source.config_map_key_ref)
        if reference is None:
            return variable.value
        try:
            return await self.text(kind, reference)
        except NotThere:
            if reference.optional:
                return None
            raise

    async def _all_of(self, source: VariablesFrom) -> dict[str, str]:
        found: dict[str, str] = {}
        for kind, reference in ((SECRET, source.secret_ref), (CONFIG_MAP, source.config_map_ref)):
            try:
                found |= {f"{source.prefix}{key}": value for key, value in (await self._data(kind, reference)).items()} if reference else {}
            except NotThere:
                if reference is None or not reference.optional:
                    raise
        return found

    async def _data(self, kind: ResourceKind, reference: Reference) -> Mapping[str, str]:
        try:
            found: dict[str, Any] = await self._cluster.get(kind, self._namespace, reference.name)
        except NotFound:
            raise NotThere(f"{kind} '{reference.name}'") from None
        data = found.get("data") or {}
        return {key: value_in(found, key) for key in data} if kind is SECRET else data
