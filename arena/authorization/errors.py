"""Why somebody is not let in. No message and no attribute of these ever holds a credential."""

from arena.errors import UsageError
from foundation.errors import ArenaError


class AuthorizationError(ArenaError):
    """The root of this package's refusals: what was asked for has not happened."""


class NotAuthenticated(AuthorizationError):
    """Nobody that we know: no credential, one that cannot be read, or one that nobody vouches for. `cause` is for our log, not for the stranger."""

    def __init__(self, message: str, *, hint: str = "", cause: str = "") -> None:
        super().__init__(message, hint=hint)
        self.cause = cause or message


class NotAllowed(AuthorizationError):
    """The caller is known and may not do this. Said before anybody looks whether the thing exists."""


class TooManyFailures(AuthorizationError):
    """Too many logins from this address have failed. It may try again after `retry_after_s`."""

    def __init__(self, message: str, *, retry_after_s: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class DecisionUnavailable(AuthorizationError):
    """Who would have to decide does not answer; nothing is let in meanwhile."""


class TokenFileInvalid(UsageError):
    """The file of tokens cannot be used as it is; the message says where."""
