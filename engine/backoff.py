"""How long to wait before something is tried again: the one rule of items that are retried and of requests that are.

Pure. Must not know what is tried, nor how often.
"""


def delay_s(attempt: int, *, first_s: float, longest_s: float, wish_s: float, chance: float) -> float:
    """Return how long the attempt after `attempt` (from 1) waits, in seconds.

    Exponential: `first_s`, doubled with each attempt, at most `longest_s`, of which a `chance` (0 to 1) part of half is taken off, so that what failed
    together does not come back together. `wish_s` (0: none) is what the other side asks for: it is waited out whole, and up to a tenth more.
    """
    backoff = min(longest_s, first_s * 2.0 ** min(attempt - 1, 30)) * (1 - chance / 2)
    return max(backoff, wish_s * (1 + chance / 10))
