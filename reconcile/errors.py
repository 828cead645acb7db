"""What can go wrong on the control plane's floor, each in the narrowest type.

Two families: what a cluster store answers (`ClusterError`), and what a reconciler says about its object (`Stalled`, `Waiting`). An error of
the first family always says what is true of the store afterwards; nothing here knows SQLite, HTTP or a particular kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from foundation.errors import ArenaError


class ReconcileError(ArenaError):
    """Any failure of this package that a person may read."""


class ClusterError(ReconcileError):
    """A cluster store refused or failed. `kind` and `name` say of what ("" when it is not about one object)."""

    def __init__(self, message: str, *, kind: str = "", name: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.name = name


def _named(namespace: str | None, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


class NotFound(ClusterError):
    """The object does not exist (any more); nothing was changed."""

    def __init__(self, kind: str, namespace: str | None, name: str) -> None:
        super().__init__(f"cannot find {kind} '{_named(namespace, name)}': it does not exist", kind=kind, name=name)


class AlreadyExists(ClusterError):
    """An object of that kind and name exists; nothing was changed."""

    def __init__(self, kind: str, namespace: str | None, name: str) -> None:
        super().__init__(f"cannot create {kind} '{_named(namespace, name)}': it already exists", kind=kind, name=name)


class Conflict(ClusterError):
    """The object has changed since it was read, or is another one of the same name; nothing was changed. Read it again, then decide again."""

    def __init__(self, kind: str, namespace: str | None, name: str, cause: str = "it has been modified since it was read") -> None:
        super().__init__(
            f"cannot change {kind} '{_named(namespace, name)}': {cause}", kind=kind, name=name, hint="apply your change to the latest version"
        )


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field.

    `path` is spelled as Kubernetes does (`spec.schedule.cron`, `spec.providers.default[0]`); `reason` is the cause's machine word in a
    Kubernetes Status: FieldValueInvalid, FieldValueRequired, FieldValueNotSupported or FieldValueForbidden.
    """

    path: str
    message: str
    reason: str = "FieldValueInvalid"


class Invalid(ClusterError):
    """The object is refused as it stands; nothing was changed. `errors` names each field, never empty."""

    def __init__(self, errors: Sequence[FieldError], *, kind: str = "", name: str = "") -> None:
        causes = "; ".join(f"{error.path}: {error.message}" if error.path else error.message for error in errors)
        super().__init__(f"cannot accept {kind or 'object'} '{name}': {causes}", kind=kind, name=name)
        self.errors = tuple(errors)

    def about(self, kind: str, name: str) -> "Invalid":
        """Return the same refusal, naming the object it is about."""
        return Invalid(self.errors, kind=kind, name=name)


class ObjectTooLarge(ClusterError):
    """The object would exceed 1.5 MiB as JSON; nothing was changed."""


class Forbidden(ClusterError):
    """What we are may not do this: permissions, a quota, a policy, or a namespace that is being deleted; nothing was changed."""


class Gone(ClusterError):
    """The event log no longer reaches back to the resourceVersion that a watch asked for. List, then watch from the listing."""


class StoreUnavailable(ClusterError):
    """The store did not answer; whether the last write took effect is unknown, unless a subclass says more."""


class KindNotServed(StoreUnavailable):
    """The store serves no objects of this kind: its CustomResourceDefinition is not there, for now or for good."""


class Unauthorized(StoreUnavailable):
    """The store does not accept our credentials, or there are none that can be read; nothing was changed."""


class NotLeading(StoreUnavailable):
    """Another process leads, or may: this one writes nothing; nothing was changed."""


class StoreCorrupt(StoreUnavailable):
    """The store's file is damaged or is no store of ours; nothing was changed."""


class StoreFull(StoreUnavailable):
    """The disk under the store is full; nothing was changed, and reads still work."""


class StoreReadOnly(StoreUnavailable):
    """The store's file or directory cannot be written; nothing was changed."""


class StoreTooNew(StoreUnavailable):
    """A newer program wrote the store; this one refuses to touch it."""


class Stalled(ReconcileError):
    """Raised by a reconciler when nothing will get better until a person changes something.

    The object gets Ready=False and Stalled=True with `reason` (CamelCase) and is looked at again when it, or something it maps from, changes.
    """

    def __init__(self, reason: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class Waiting(ReconcileError):
    """Raised by a reconciler when something else must happen first.

    The object gets Ready=False and Reconciling=True with `reason` and is looked at again after `after` at the latest. It is no failure: there is no backoff.
    """

    def __init__(self, reason: str, message: str, after: timedelta = timedelta(seconds=30), *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.after = after


class LeadershipLost(ReconcileError):
    """This process led and does so no longer: it stops what it does as a leader. It may be a candidate again."""


class InvariantBroken(ReconcileError):
    """A status contradicts itself: a programming error, found by `runtime.invariants.check`."""
