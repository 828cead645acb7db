"""Every key name of the queue, in one place.

A run's keys share the hash tag of its UID, so one script can change them together on any Redis; the installation's id comes first, so that
a sweep touches only its own. Must not know what is stored under them.
"""

import re
from dataclasses import dataclass

from engine.items import RunUID

GROUP = "workers"
"""The consumer group of every run's stream."""

RETURNED = "~returned"
"""The consumer that holds entries which were handed back. No worker's name starts with a tilde."""

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_PARTS = ("meta", "settled", "items", "delayed", "records", "totals", "cells", "sketches", "chunks", "wake", "plan")


@dataclass(frozen=True, slots=True)
class RunKeys:
    """The keys of one run.

    In the order in which every script gets them:
    `meta` hash (digest, items, budget, complete, stopped, lease time); `settled` string, a day; `items` stream: one entry an item that is queued
    or leased; `delayed` sorted set: retries by due time in ms; `records` hash: index to record; `totals` hash: sums over the records;
    `cells` hash: sums by scenario/provider; `sketches` hash: counts by scenario/provider and log bucket of the duration; `chunks` set: what was
    put; `wake` stream of one entry: changes when waiting workers should look; `plan` string.
    """

    installation: str
    run: RunUID

    def all(self) -> list[str]:
        """Return every key, in the order of the scripts' KEYS."""
        return [self._key(part) for part in _PARTS]

    @property
    def pattern(self) -> str:
        """Return the glob that matches these keys and no other run's; neither part of it has a letter that globs read."""
        return self._key("*")

    @property
    def settled(self) -> str:
        """Return the key of the mark that outlives the others by a day."""
        return self._key("settled")

    @property
    def items(self) -> str:
        """Return the key of the stream."""
        return self._key("items")

    @property
    def records(self) -> str:
        """Return the key of the records' hash."""
        return self._key("records")

    @property
    def cells(self) -> str:
        """Return the key of the sums by scenario/provider."""
        return self._key("cells")

    @property
    def sketches(self) -> str:
        """Return the key of the durations' log buckets."""
        return self._key("sketches")

    @property
    def wake(self) -> str:
        """Return the key of the wake-up stream."""
        return self._key("wake")

    @property
    def plan(self) -> str:
        """Return the key of the plan's bytes."""
        return self._key("plan")

    def _key(self, part: str) -> str:
        return f"arena:{self.installation}:{{{self.run}}}:{part}"


def run_keys(installation: str, run: RunUID) -> RunKeys:
    """Return the keys of `run`.

    Raises:
        ValueError: one of the two is not made of letters, digits, `.`, `_` and `-` (it could name another run's keys).
    """
    for word in (installation, run):
        if not _SAFE.fullmatch(word):
            raise ValueError(f"cannot name keys for '{word}': only letters, digits, '.', '_' and '-' are allowed")
    return RunKeys(installation, run)


def runs_pattern(installation: str) -> str:
    """Return the SCAN pattern that finds the meta key of every run of `installation`."""
    return f"arena:{installation}:{{*}}:meta"


def run_of(meta_key: str) -> RunUID:
    """Return the run whose meta key this is."""
    return RunUID(meta_key.partition("{")[2].partition("}")[0])


def owner_key(installation: str) -> str:
    """Return the key that says which cluster `installation` is of."""
    return f"arena:{installation}:cluster"


def run_user(installation: str, run: RunUID) -> str:
    """Return the name of the ACL user of `run`."""
    return f"{_users(installation)}{run}"


def run_of_user(installation: str, user: str) -> RunUID | None:
    """Return the run whose user this is; None for any other user of the server."""
    prefix = _users(installation)
    return RunUID(user.removeprefix(prefix)) if user.startswith(prefix) else None


def _users(installation: str) -> str:
    return f"arena:{installation}:"
