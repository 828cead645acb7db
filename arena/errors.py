"""What a person at the command line may be told, and the exit code it ends with."""

from foundation.errors import ArenaError


class UsageError(ArenaError):
    """The command, its configuration or its surroundings must change first; exit code 2."""


class ServerUnreachable(UsageError):
    """No server answers at the address that the state directory or the settings name."""


class StateLocked(UsageError):
    """Another process uses this state directory."""


class StateUnusable(UsageError):
    """The state directory cannot be read or written as it must be."""


class BackupFailed(UsageError):
    """The backup cannot be taken; there is no archive."""


class RestoreRefused(UsageError):
    """The archive or the place for it is not what it must be; nothing has been written."""
