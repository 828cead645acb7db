"""What a process is set to that holds many conversations at once: how many connections it may have, and how often its memory is searched for garbage.

Owns these settings of the process that calls it. Must not know what it holds.
"""

import contextlib
import gc
import resource

COLLECT_AFTER = (10_000, 20, 20)
"""Objects made before the young, rounds before the older and the old are searched for cycles. At a thousand requests in flight the usual 700 search
what is in flight over and over, which takes as long as the requests."""


def prepare() -> None:
    """Set this process. Call it once what it needs is loaded: that is not searched for garbage any more. Idempotent."""
    _allow_many_open_files()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def _allow_many_open_files() -> None:
    """Raise the limit to what the system lets this process have: the usual one (1,024) is less than a thousand requests in flight need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    with contextlib.suppress(ValueError, OSError):  # some systems name a limit that they do not give
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
