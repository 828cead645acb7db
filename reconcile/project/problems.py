"""Why a project's source is not what its remote has: one error with the reason that conditions show.

Owns how the failures of `gitops` become reasons.
"""

from gitops.errors import GitError, RemoteCause, RemoteFailed, RepositoryBusy, SnapshotUnexportable, StorageFailed
from reconcile.errors import ReconcileError
from reconcile.kinds.reasons import ProjectReason

_BY_CAUSE = {RemoteCause.REFUSED: ProjectReason.AUTHENTICATION_FAILED, RemoteCause.INVALID: ProjectReason.INVALID_SPEC}
"""All others say that the remote cannot be reached; the message says how."""

FAILURES = (RemoteFailed, SnapshotUnexportable, StorageFailed, RepositoryBusy)
"""What `problem_of` knows. Anything else is a fault of ours, and retried as one."""


class SourceProblem(ReconcileError):
    """The remote, or the commit that it names, could not be taken. `retry_after_s` is what the host asked for, None when it did not say."""

    def __init__(self, reason: ProjectReason, message: str, *, hint: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.retry_after_s = retry_after_s

    @property
    def text(self) -> str:
        """Message and remedy, as a condition shows them."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


def problem_of(error: GitError) -> SourceProblem:
    """Return what one of `FAILURES` means for a project."""
    match error:
        case RemoteFailed():
            reason = _BY_CAUSE.get(error.cause, ProjectReason.REMOTE_UNREACHABLE)
            return SourceProblem(reason, error.message, hint=error.hint, retry_after_s=error.retry_after_s)
        case SnapshotUnexportable():
            reason = ProjectReason.SNAPSHOT_UNEXPORTABLE
        case RepositoryBusy():
            reason = ProjectReason.PROGRESSING_WITH_RETRY
        case _:
            reason = ProjectReason.STORAGE_FAILED
    return SourceProblem(reason, error.message, hint=error.hint)
