"""The Cluster port: what every store of Kubernetes objects keeps, and the registry of kinds it serves.

Objects are plain JSON dicts, in and out; a returned dict is the caller's own copy. The rules are those of a Kubernetes API server, and
tests/contracts/test_cluster*.py states each of them once for every adapter.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from reconcile.cluster.selectors import Selector
from reconcile.errors import FieldError, Invalid

Object = dict[str, Any]
"""A Kubernetes object as JSON: apiVersion, kind, metadata, spec, status, …"""

GROUP = "omnia.altairalabs.ai"
VERSION = "v1alpha1"

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """One kind of object, as discovery would describe it.

    `has_status`: status is a subresource. `has_generation`: metadata.generation counts changes outside metadata and status.
    `unconditional_update`: an update without a resourceVersion is taken (the core kinds), not refused (custom kinds).
    `selectable`: paths of string fields that a listing may select by (a CRD's selectableFields). One that is added here needs a migration of the
    embedded store that indexes what is stored.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    has_status: bool = True
    has_generation: bool = True
    unconditional_update: bool = False
    short_names: tuple[str, ...] = ()
    selectable: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """Return `group/version`, or the bare version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """Return the lower-case singular name."""
        return self.kind.lower()

    def __str__(self) -> str:
        return self.kind


def _core(kind: str, plural: str, short: str = "", *, namespaced: bool = True, has_status: bool = False) -> ResourceKind:
    names = (short,) if short else ()
    return ResourceKind("", "v1", kind, plural, namespaced, has_status, has_generation=False, unconditional_update=True, short_names=names)


RUN_PHASE = "status.phase"
RUN_PROJECT = "spec.template.sourceRef.name"
"""Fields of an ArenaRun that a listing may select by; a phase that is not set reads ""."""

ARENA_PROJECT = ResourceKind(GROUP, VERSION, "ArenaProject", "arenaprojects", short_names=("ap",))
ARENA_JOB = ResourceKind(GROUP, VERSION, "ArenaJob", "arenajobs", short_names=("aj",))
ARENA_RUN = ResourceKind(GROUP, VERSION, "ArenaRun", "arenaruns", short_names=("arun",), selectable=(RUN_PHASE, RUN_PROJECT))
PROVIDER = ResourceKind(GROUP, VERSION, "Provider", "providers", short_names=("prov",))
AGENT_RUNTIME = ResourceKind(GROUP, VERSION, "AgentRuntime", "agentruntimes", short_names=("agent", "ar"))
TOOL_REGISTRY = ResourceKind(GROUP, VERSION, "ToolRegistry", "toolregistries", short_names=("tr",))
WORKSPACE = ResourceKind(GROUP, VERSION, "Workspace", "workspaces", namespaced=False, short_names=("ws",))
CONFIG_MAP = _core("ConfigMap", "configmaps", "cm")
SECRET = _core("Secret", "secrets")
EVENT = _core("Event", "events", "ev")
NAMESPACE = _core("Namespace", "namespaces", "ns", namespaced=False, has_status=True)
POD = _core("Pod", "pods", "po", has_status=True)
JOB = ResourceKind("batch", "v1", "Job", "jobs", unconditional_update=True)
LEASE = ResourceKind("coordination.k8s.io", "v1", "Lease", "leases", has_status=False, has_generation=False, unconditional_update=True)

KINDS: Mapping[str, ResourceKind] = {
    kind.kind: kind
    for kind in (
        ARENA_PROJECT,
        ARENA_JOB,
        ARENA_RUN,
        PROVIDER,
        AGENT_RUNTIME,
        TOOL_REGISTRY,
        WORKSPACE,
        CONFIG_MAP,
        SECRET,
        EVENT,
        NAMESPACE,
        POD,
        JOB,
        LEASE,
    )
}
"""Every kind that a store serves, by its name. Names are unique over groups."""


def kind_of(obj: Mapping[str, Any]) -> ResourceKind:
    """Return the kind that an object's apiVersion and kind name.

    Raises:
        Invalid: the store serves no such kind.
    """
    api_version, name = obj.get("apiVersion"), obj.get("kind")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None or kind.api_version != api_version:
        raise Invalid([FieldError("kind", f"no matches for kind {name!r} in version {api_version!r}")], kind=str(name))
    return kind


@dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """Where an object of a known kind lives; `namespace` is "" for a cluster-scoped one."""

    namespace: str
    name: str

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> "ObjectKey":
        """Return the key of an object."""
        metadata = obj["metadata"]
        return cls(metadata.get("namespace", ""), metadata["name"])

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def is_newer(version: str, than: str) -> bool:
    """Say whether one resourceVersion of a kind is of a later change than another; any is later than "".

    Versions are whole numbers that grow, in the embedded store as in Kubernetes (KEP-5504 promises what etcd always did). Where one is not, they
    are told apart by equality alone: the one that arrives last counts as newer.
    """
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects of one kind as of one moment, ordered by namespace and name. A watch from `resource_version` misses nothing and repeats nothing."""

    items: list[Object]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change. `object` is the object after it, or as it last was for DELETED; its resourceVersion is the change's own."""

    type: EventType
    object: Object


Labels = Mapping[str, str] | Selector
"""What a list or a watch selects by: labels that must be equal, or a parsed selector."""

Fields = Mapping[str, str] | Selector
"""What a list selects by besides labels: `selectable` fields of the kind. A field that is not there is "". Terms are equal or not equal, as in a
Kubernetes fieldSelector: `in` with one value, `notin` with any number."""

PAGE = 500
"""Objects in a page of a listing, client-go's number."""


class Admitted(Protocol):
    """An object as admission lets it in: defaulted, with what the caller should be told."""

    @property
    def object(self) -> Object:
        """The object with its defaults."""

    @property
    def warnings(self) -> Sequence[str]:
        """What is odd about it though it is taken."""


class Admission(Protocol):
    """Rules of kinds, run inside the write.

    `new` is the whole object as it would be stored, `old` what is stored (None on create). Kinds it does not know pass unchanged.
    """

    def __call__(self, kind: str, new: Object, old: Object | None, /) -> Admitted:
        """Default and check an object.

        Raises:
            Invalid: it is refused; the message names each field.
        """


class StatusAdmission(Protocol):
    """Rules of status writes (set-once fields), run inside the write. Returns nothing; raises Invalid to refuse."""

    def __call__(self, kind: str, new: Object, old: Object, /) -> None:
        """Check the object `new`, which differs from `old` in its status only."""


class Cluster(Protocol):
    """Kubernetes objects of the registered kinds, with Kubernetes' rules.

    `resourceVersion` grows with every change of any object; treat it as opaque but for `is_newer`. Every method may raise `StoreUnavailable`
    or `Forbidden`. `namespace` is None or "" for a cluster-scoped kind; an API server wants the namespace of a new object to exist, the embedded
    store does not.
    """

    async def get(self, kind: ResourceKind, namespace: str | None, name: str) -> Object:
        """Return one object.

        Raises:
            NotFound: there is none.
        """

    async def list(self, kind: ResourceKind, namespace: str | None = None, labels: Labels | None = None, *, fields: Fields | None = None) -> Listing:
        """Return the objects of one namespace (None: of all) that carry the labels and fields. None found is an empty listing, never an error.

        Raises:
            Invalid: a field is none that the kind can be selected by.
        """

    def pages(self, kind: ResourceKind, namespace: str | None = None) -> AsyncGenerator[Listing, None]:
        """Yield what `list` would return, in pages of at most `PAGE` objects, so that a reader need not hold all of them; at least one page.

        Every page bears one resource_version, as old as the first page: a watch from it misses nothing. A later page may show objects newer than
        that, which the watch then tells of again.

        Raises:
            Gone: the listing took so long that it cannot go on; begin again.
        """

    async def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        """Store a new object: uid, creationTimestamp, generation 1; status is dropped; `generateName` gets five random characters.

        An object whose owners are all gone is taken, and then removed as garbage.

        Raises:
            AlreadyExists: the name is taken. NotFound: its namespace does not exist.
            Invalid: refused, also for a field that the kind does not declare; ObjectTooLarge: over 1.5 MiB.
        """

    async def update(self, obj: Object, *, dry_run: bool = False) -> Object:
        """Replace everything but the status and what the system owns.

        generation grows if anything outside metadata changed; a change of nothing keeps the resourceVersion. Removing the last
        finalizer of an object that is being deleted removes it.

        Raises:
            NotFound, Invalid, ObjectTooLarge: nothing was changed.
            Conflict: metadata.resourceVersion or uid is not the stored one.
        """

    async def patch(
        self, kind: ResourceKind, namespace: str | None, name: str, merge_patch: Object, *, resource_version: str | None = None, dry_run: bool = False
    ) -> Object:
        """Apply an RFC 7386 merge patch as `update` would; a status in it is ignored. Unconditional unless a resourceVersion is given, here or inside.

        Raises:
            NotFound, Conflict, Invalid, ObjectTooLarge: nothing was changed.
        """

    async def patch_status(
        self, kind: ResourceKind, namespace: str | None, name: str, status: Object, *, resource_version: str | None = None
    ) -> Object:
        """Apply an RFC 7386 merge patch to the status alone (None removes a key, a list replaces a list). generation stays.

        Raises:
            NotFound, Conflict, Invalid, ObjectTooLarge: nothing was changed.
        """

    async def delete(
        self, kind: ResourceKind, namespace: str | None, name: str, *, uid: str | None = None, resource_version: str | None = None
    ) -> Object | None:
        """Delete an object and, in the background, all objects whose every owner is then gone (blockOwnerDeletion is ignored).

        Returns the object, with deletionTimestamp, while finalizers hold it; None when it is gone. Repeating it changes nothing.

        Raises:
            NotFound: there is none.
            Conflict: it is not the object of that uid or version.
        """

    def watch(
        self, kind: ResourceKind, namespace: str | None, resource_version: str, *, labels: Labels | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield every change after `resource_version` in order, then wait for more, until the caller stops or the store closes.

        From "" or "0" the present objects come first, as ADDED. With labels, entering the selection is ADDED and leaving it DELETED.

        Raises:
            Gone: the log does not reach back that far; list again.
        """
