"""What can go wrong with a repository, a ref, a push, a snapshot or a remote."""

from enum import StrEnum

from foundation.errors import ArenaError


class GitError(ArenaError):
    """The root of this package's errors."""


class GitFailed(GitError):
    """The git program ended with an error, ran out of time, or is not installed. `stderr` holds what it said, cut to 4 KiB."""

    def __init__(self, message: str, *, hint: str = "", stderr: str = "", status: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.stderr = stderr
        self.status = status


class UnsafeName(GitError):
    """A name, uid, commit or path cannot become part of a path on the content volume."""


class UnknownProject(GitError):
    """No hosted repository has this name, or the caller may not know that one has."""


class RefNotFound(GitError):
    """The ref names no commit of this repository: not a branch, tag, full ref, or full SHA reachable from one."""


class SnapshotUnexportable(GitError):
    """The commit's tree holds something that no snapshot may hold. `path` names it; empty when the whole tree is at fault."""

    def __init__(self, message: str, *, hint: str = "", path: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class StorageFailed(GitError):
    """The content volume refused a read or a write: full, read-only, or gone. Nothing half-written is visible."""


class VolumeUnfit(GitError):
    """The content volume cannot keep writers of one repository apart, so several processes or machines must not share it."""


class SeedFailed(GitError):
    """The first commit cannot be made from these files. The repository is as it was."""


class RepositoryBusy(GitError):
    """Another process holds the repository's lock for longer than a caller should wait. Nothing has changed; try again later."""


class RepositoryExists(GitError):
    """The project has a repository already, so another one cannot take its place. Nothing has changed."""


class PushRefused(GitError):
    """The push breaks the repository's policy. Nothing has changed. `path` names the file at fault, empty when it is none."""

    def __init__(self, message: str, *, hint: str = "", path: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class Unauthenticated(GitError):
    """The request carries no credential, or one that is not known. Answered 401 with a Basic challenge."""


class Forbidden(GitError):
    """The caller is known and may not do this. Answered 403."""


class TooManyFailures(GitError):
    """Too many requests from where this one came were not let in. Answered 429: it may be repeated after `retry_after_s`."""

    def __init__(self, message: str, *, retry_after_s: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class AuthorizerUnavailable(GitError):
    """Nobody can say now what the caller may do, so nothing is let in. Answered 503."""


class RemoteCause(StrEnum):
    """Why a remote could not be read."""

    INVALID = "invalid"
    """The URL, the default branch or a credential cannot be used as it is spelled."""
    REFUSED = "refused"
    """401 or 403: the credential is missing, wrong, or may not read the repository."""
    NOT_FOUND = "not found"
    """404: no such repository, or the host hides it from this credential."""
    UNREACHABLE = "unreachable"
    """The host's name does not resolve, or no connection to it comes about or stays."""
    ADDRESS = "address not allowed"
    """The host's name leads to an address that no operator has allowed."""
    REDIRECT = "redirect"
    """To another host, not to https, or more than three."""
    CERTIFICATE = "certificate"
    """The host's certificate is not trusted, does not name the host, or has run out; or `ca.crt` holds none."""
    TOO_LARGE = "too large"
    """More refs or a larger pack than the limits allow."""
    TIMED_OUT = "timed out"
    """Silent, slow, or longer than the limits allow."""
    BUSY = "busy"
    """429 or 5xx: the host asks to be left alone for a while."""
    PROTOCOL = "protocol"
    """What answers does not speak git, breaks off, or has changed its object format."""
    FAULTY = "faulty history"
    """An object fails a check that no harmless fault of old tools explains."""


class RemoteFailed(GitError):
    """A remote could not be listed or fetched; the mirror still answers with what it has. No message or hint holds a credential.

    `retry_after_s` is what the host asked for (BUSY only), in seconds from now; None when it did not say.
    """

    def __init__(self, message: str, *, cause: RemoteCause, hint: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.cause = cause
        self.retry_after_s = retry_after_s
