"""What can go wrong on the evaluation floor, each in the narrowest type.

Callers above map these types to run reasons in one table; nothing here knows what a run's status looks like.
"""

from typing import TYPE_CHECKING

from foundation.errors import ArenaError

if TYPE_CHECKING:
    from engine.providers.port import Attempt


class EngineError(ArenaError):
    """Any failure of this package that a person may read."""


class ArenaFileNotFound(EngineError):
    """The arena config file is not in the bundle, or its name is a glob or leaves the bundle."""


class BundleInvalid(EngineError):
    """A file of the bundle cannot be read as what it must be; the message starts with `file:line:`."""


class NoScenarios(EngineError):
    """The filters leave no scenario to run."""


class ProviderNotFound(EngineError):
    """A scenario, a role or a filter names a provider that the bundle and the job do not have."""


class MatrixTooLarge(EngineError):
    """Scenarios x providers x trials exceed the item cap; the message gives both numbers."""


class FeatureNotSupported(EngineError):
    """The selected scenarios need what this engine does not do yet; the message names the key, the file and the line."""


class CodeNotAllowed(FeatureNotSupported):
    """The selected scenarios start programs of the bundle, and the operator does not let this project's run; the message names each."""


class EngineVersionMismatch(EngineError):
    """A plan was made by another version of the engine, whose results may differ; nothing of it was run."""


class ProviderError(EngineError):
    """A provider did not answer as it should.

    `kind` is a stable word (`timeout`, `rate_limit`, `unavailable`, `authentication`, `invalid_request`, `protocol`);
    `transient` says whether another attempt may succeed; `retry_after_s` is the provider's own wish, in seconds. `attempts` are the requests before the
    last one, which had to be made again; whoever gives up sets them.
    """

    def __init__(self, message: str, *, kind: str, transient: bool, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.attempts: tuple[Attempt, ...] = ()
        self.kind = kind
        self.transient = transient
        self.retry_after_s = retry_after_s


class CredentialMissing(EngineError):
    """A provider's key is not where it should be; the message names the provider and the variable or the file, never a value. Nothing was run."""


class PricesInvalid(EngineError):
    """A file of prices cannot be read, or an entry of it is no price; the message names both."""


class ToolsUnavailable(EngineError):
    """The tools of a server or an agent cannot be listed, or a job's tool cannot be called, so no conversation with them can be held; that is never a score.

    `transient` says whether another attempt may find them.
    """

    def __init__(self, message: str, *, hint: str = "", transient: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.transient = transient


class MediaUnavailable(EngineError):
    """A picture, sound, film or document that a message has cannot be sent: its file or address gives nothing, or not what the part says it is.

    That is never a score. `transient` says whether another attempt may get it.
    """

    def __init__(self, message: str, *, hint: str = "", transient: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.transient = transient


class JudgeFailed(EngineError):
    """A judge answered, more than once, and no answer was a verdict; that is never a score."""


class ContextExceeded(EngineError):
    """A conversation does not fit its context budget, and its policy does not say what to leave out, or nothing may be left out."""


class CompositionFailed(EngineError):
    """A step of a composition did not do its part: its tool failed, its output does not fit its schema, or its agent never came to an end."""


class QueueUnavailable(EngineError):
    """The queue's store did not answer; what was asked may or may not have happened."""


class QueueRefused(QueueUnavailable):
    """The queue's store does not know a command, or this user may not give it; asking again changes nothing."""


class RunUnknown(EngineError):
    """The run was never put, or the store lost it."""


class RunSettled(EngineError):
    """The run is over: its records were folded into files and a status."""


class PutRefused(EngineError):
    """The run was stopped, or put with another plan digest."""


class OutputUnavailable(EngineError):
    """The run's directory cannot be written or read; accounting goes on without it."""
