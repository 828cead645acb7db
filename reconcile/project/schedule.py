"""When a remote is fetched. Pure: the stored status decides, so a restart changes nothing.

A good fetch is followed by the next after `pollInterval`; one that failed by longer and longer waits, of ten intervals at most, or by the time that
the host asked for. Every wait is spread by a tenth, so that a hundred projects do not poll at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

SPREAD = 0.1
MOST_INTERVALS = 10
LONGEST_RETRY_AFTER = timedelta(hours=1)
"""A host's Retry-After is honoured up to here: hosts that count by the hour name no longer time."""


@dataclass(frozen=True, slots=True)
class Want:
    """What speaks for a fetch besides the clock: the spec's generation, the request to answer, the Secret's version, a mirror that is not there."""

    generation: int
    request: str
    secret_version: str
    missing: bool


def is_due(status: Mapping[str, Any], want: Want, interval: timedelta, now: datetime) -> bool:
    """Say whether the remote is fetched now.

    A Secret that has changed counts although the last fetch was good: who rotates a credential learns at once whether it works.
    A mirror that is not there because it could not be fetched yet waits like one that is.
    """
    planned = status.get("nextFetchTime")
    lost = want.missing and "fetchFailure" not in status
    if lost or planned is None or want.generation != status.get("observedGeneration"):
        return True
    if want.request and want.request != status.get("lastHandledSync"):
        return True
    if want.secret_version != status.get("credentialsVersion", ""):
        return True
    wait = datetime.fromisoformat(planned) - now
    # No plan of ours lies further ahead: it was made while the clock was wrong.
    longest = max(interval * MOST_INTERVALS, LONGEST_RETRY_AFTER) * (1 + SPREAD)
    return wait <= timedelta() or wait > longest


def wait_for(interval: timedelta, *, failures: int, retry_after_s: float | None, spread: float) -> timedelta:
    """Return how long to wait for the next fetch after `failures` in a row; `spread` is drawn from -SPREAD to SPREAD."""
    wait = min(interval * (1 << min(max(failures - 1, 0), MOST_INTERVALS)), interval * MOST_INTERVALS)
    wait = min(wait * (1 + spread), interval * MOST_INTERVALS) if failures else wait * (1 + spread)
    asked = min(timedelta(seconds=max(retry_after_s or 0.0, 0.0)), LONGEST_RETRY_AFTER)
    return max(wait, asked * (1 + abs(spread)))
