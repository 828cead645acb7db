"""Runs under trial: what fell while each went, and how its accounts differ from those of an undisturbed run."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.accounts import Account, account_of, differences
from bench.installation import BenchFailed, wait_for
from bench.mock_bundle import ITEMS
from reconcile.arena_run import finished

Run = dict[str, Any]


@dataclass(slots=True)
class Trial:
    """One run under trial: the kills that fell while it went, and what was wrong with it in the end."""

    job: str
    began_s: float
    met: Counter[str] = field(default_factory=Counter)
    slots: Counter[str] = field(default_factory=Counter)
    ended_s: float = 0.0
    run: Run | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Say whether it still goes."""
        return not self.ended_s


class Trials:
    """The trials of one bench. `whole` is the account of an undisturbed run, `directory_of` says where a run's results lie, `limit_s` when it is given up."""

    def __init__(self, whole: Account, directory_of: Callable[[Run], Path], limit_s: float) -> None:
        self.whole = whole
        self._directory_of = directory_of
        self._limit_s = limit_s
        self.all: list[Trial] = []
        self.accounts: list[Account] = []

    @property
    def open(self) -> list[Trial]:
        """Return those that still go."""
        return [trial for trial in self.all if trial.is_open]

    def by_run(self) -> dict[str, Trial]:
        """Return those that still go and have a run, by its name."""
        return {trial.run["metadata"]["name"]: trial for trial in self.open if trial.run is not None}

    def begin(self, job: str) -> None:
        """Begin the trial of a job that was just created."""
        self.all.append(Trial(job, time.monotonic()))

    def meet(self, target: str) -> None:
        """Note that something fell that all that still go depend on."""
        for trial in self.open:
            trial.met[target] += 1

    def observe(self, runs: Iterable[Run]) -> None:
        """Close the trials whose runs have ended, and those that take too long."""
        found = {run["spec"]["jobRef"]["name"]: run for run in runs}
        for trial in self.open:
            trial.run = found.get(trial.job)
            if trial.run is not None and finished(trial.run):
                self._close(trial, trial.run)
            elif time.monotonic() - trial.began_s > self._limit_s:
                trial.ended_s = time.monotonic()
                trial.problems.append(f"did not end within {self._limit_s:.0f} s: {words_of(trial.run)}")

    def report(self, kinds: Sequence[str]) -> bool:
        """Print how many ended, were hit, lost an item or counted one twice; say whether all is well."""
        lost, double = sum(account.lost(self.whole) for account in self.accounts), sum(account.double(ITEMS) for account in self.accounts)
        took = sorted(trial.ended_s - trial.began_s for trial in self.all)
        wrong = [trial for trial in self.all if trial.problems]
        for trial in wrong:
            print(f"  {trial.job}: {'; '.join(trial.problems)}")
        met = ", ".join(f"{kind} {sum(trial.met[kind] > 0 for trial in self.all)}" for kind in kinds)
        print(f"runs       {len(self.all)} of {ITEMS} items; hit while they went: {met}")
        print(f"ended      {len(self.accounts)}, after {took[len(took) // 2]:.1f} s (median), {took[-1]:.1f} s (longest)")
        print(f"lost       {lost}\ndouble     {double}\nunequal    {len(wrong)} runs that differ from the undisturbed one")
        return len(self.accounts) == len(self.all) and not lost and not double and not wrong

    def _close(self, trial: Trial, run: Run) -> None:
        trial.ended_s = time.monotonic()
        account = account_of(run, self._directory_of(run))
        self.accounts.append(account)
        trial.problems.extend(differences(account, self.whole))
        print(f"  {trial.job}: {account.phase} after {trial.ended_s - trial.began_s:.1f} s, met {dict(trial.met)}", flush=True)
        if trial.problems:
            trial.problems.append(words_of(run))


def words_of(run: Run | None) -> str:
    """Return what a run says of itself."""
    if run is None:
        return "no run was made"
    status = run.get("status") or {}
    ready: dict[str, Any] = next((c for c in status.get("conditions", []) if c["type"] == "Ready"), {})
    return f"run {run['metadata']['name']}, {status.get('phase')}, {ready.get('reason')}: {ready.get('message')}; progress {status.get('progress')}"


def undisturbed(list_runs: Callable[[], Iterable[Run]], directory_of: Callable[[Run], Path], limit_s: float) -> Account:
    """Wait until the one run that goes in peace has ended; return its account.

    Raises:
        BenchFailed: it does not end with every item passed.
    """
    run = wait_for(lambda: next((run for run in list_runs() if finished(run)), None), limit_s, "the undisturbed run did not end")
    account = account_of(run, directory_of(run))
    if account.phase != "Succeeded" or len(account.counts) != ITEMS or account.double(ITEMS):
        raise BenchFailed(f"the undisturbed run is not whole: {len(account.counts)} items; {words_of(run)}")
    return account
