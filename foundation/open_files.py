"""How many files and connections a process may have open at once. Owns that limit of the process that calls it."""

import contextlib
import resource


def allow_many() -> None:
    """Raise the limit to what the system lets this process have: the usual one (1,024) is less than many conversations at once need. Idempotent."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    with contextlib.suppress(ValueError, OSError):  # some systems name a limit that they do not give
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
