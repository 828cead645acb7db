"""The root of all errors that a person may read, and the one error that a group of them stands for."""

from typing import TypeVar, overload

E = TypeVar("E", bound=BaseException)


class ArenaError(Exception):
    """A failure that names the thing, its cause and, in `hint`, the remedy.

    The message is `cannot <verb> <thing> 'name': <cause>`, lower case, without a full stop. The CLI prints it as `error: …`,
    then `hint: …`; a reconciler puts it into a condition. Subclasses live in each package's `errors.py`.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UnreadableGlob(ArenaError):
    """A glob cannot be read. `cause` says why, without the glob."""

    def __init__(self, glob: str, cause: str) -> None:
        super().__init__(f"cannot read glob {glob!r}: {cause}")
        self.cause = cause


@overload
def first_failure(error: BaseExceptionGroup[E]) -> E: ...
@overload
def first_failure(error: BaseException) -> BaseException: ...
def first_failure(error: BaseException) -> BaseException:
    """Return the first failure in a group, however deep in groups it is; an error that is no group is returned as it is."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
