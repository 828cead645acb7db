"""Deaths at named places: of the server, a worker and the queue server in a run's life, and of the server in pushes, exports and seeds, by seed.

    python -m bench crashes [--each 50] [--git 200] [--seed S] [--part runs|git] [--keep]

`runs`: every run is told where its processes die, or stand still while the queue server is killed: at its put, its settling, its deletion; when a
worker leases, has written lines, has counted. Its results, sums and status are compared with those of an undisturbed run.
`git`: the server dies in the middle of a push, an export or a seed; then it is started again, and the push is repeated. After each death the
repository is checked with `git fsck --full`; in the end every snapshot is read in full and compared with its commit.
Two installations at a time do the runs. Exit 1 when something is lost, counted twice, unequal or damaged, or a place was not met often enough.
"""

import argparse
import secrets
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.crash_git import KINDS as GIT_KINDS
from bench.crash_git import CrashGit
from bench.crash_runs import ITEMS, PLACES, CrashRuns, Trial, kind_of
from bench.installation import in_a_folder
from bench.kills import leftovers

AT_ONCE = 2
PATIENCE = 1.4
"""So many times the runs that are needed are begun before a place counts as missed."""
RUN_PLACES = tuple(place for place in PLACES if place != "delete")


class Tally:
    """What all installations together have met."""

    def __init__(self, each: int) -> None:
        self.each = each
        self.met: Counter[str] = Counter()
        self.trials: list[Trial] = []
        self.left: list[str] = []
        self._lock = threading.Lock()
        self._begun: Counter[str] = Counter()

    def wants(self, *places: str) -> bool:
        """Say whether one more run is needed for these places, and count it as begun."""
        with self._lock:
            needed = any(self.met[kind_of(who, place)] < self.each for who in ("kill", "Redis") for place in places)
            wanted = needed and self._begun[places[0]] < self.each * PATIENCE
            self._begun[places[0]] += wanted
            return wanted

    def add(self, trial: Trial) -> None:
        """Count a run, and say what was wrong with it."""
        with self._lock:
            self.trials.append(trial)
            self.met.update(trial.met)
            for line in trial.problems:
                print(f"  {trial.job}: {line}", flush=True)
            for order in trial.missed:
                print(f"  {trial.job}: nobody came to {order}", flush=True)
            if len(self.trials) % 10 == 0:
                print(f"  {len(self.trials)} runs, {self.met.total()} deaths", flush=True)


def work(folder: Path, seed: int, tally: Tally) -> CrashRuns:
    """Let one installation do runs until the tally is full."""
    folder.mkdir()
    runs = CrashRuns(folder, seed)
    try:
        runs.prepare()
        while tally.wants(*RUN_PLACES):
            tally.add(runs.settle_one())
        tally.left += leftovers(runs.installation)
        while tally.wants("delete"):
            tally.add(runs.delete_one())
    finally:
        runs.stop()
    return runs


def do_runs(folder: Path, each: int, seed: int) -> bool:
    """Do row one; say whether all is well."""
    tally, begun = Tally(each), time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = [pool.submit(work, folder / f"runs-{number}", seed + number, tally) for number in range(AT_ONCE)]
        done = [future.result() for future in futures]
    whole = done[0].whole
    accounts = [trial.account for trial in tally.trials if trial.account is not None]
    lost = sum(account.lost(whole) for account in accounts if whole is not None)
    double = sum(account.double(ITEMS) for account in accounts)
    unequal = sum(bool(trial.problems) for trial in tally.trials)
    for who in ("kill", "Redis"):
        counts = [f"{tally.met[kind_of(who, place)]} at {place}" for place in PLACES]
        print(f"{who:<11}{', '.join(counts)}")
    print(f"runs       {len(accounts)} of {ITEMS} items to their end, {len(tally.trials) - len(accounts)} deleted while they went; all ended")
    print(f"lost       {lost}\ndouble     {double}\nunequal    {unequal} runs that differ from the undisturbed one")
    print(f"again      {sum(account.again for account in accounts)} items ran more than once, and were counted once")
    print(f"not met    {sum(len(trial.missed) for trial in tally.trials)} orders")
    for line in tally.left:
        print(f"  {line}")
    full = all(tally.met[kind_of(who, place)] >= each for who in ("kill", "Redis") for place in PLACES)
    good = full and not lost and not double and not unequal and not tally.left
    print(
        f"{'ok    ' if good else 'MISSED'} {each} deaths at each place, 0 lost, 0 double, all runs end, equal to an undisturbed one ({time.monotonic() - begun:.0f} s)"
    )
    return good


def do_git(folder: Path, deaths: int, seed: int) -> bool:
    """Do row two; say whether all is well."""
    folder.mkdir()
    begun = time.monotonic()
    git = CrashGit(folder, seed)
    try:
        git.prepare()
        while sum(git.met.values()) < deaths and git.tried < deaths * PATIENCE:
            git.strike()
            if git.tried % 20 == 0:
                print(f"  {sum(git.met.values())} deaths in pushes, exports and seeds", flush=True)
        git.check_all()
    finally:
        git.stop()
    print(f"deaths     {', '.join(f'{git.met[kind]} in {kind}' for kind in GIT_KINDS)}")
    print(f"fsck       {git.checked} times clean\nsnapshots  {git.snapshots} read in full, {len(git.partial)} partial or bad")
    print(f"locks      {len(git.locks)} stuck\npushes     {git.accepted} accepted, {len(git.lost)} lost")
    for line in (*git.damage, *git.partial, *git.locks, *git.lost):
        print(f"  {line}")
    good = sum(git.met.values()) >= deaths and not (git.damage or git.partial or git.locks or git.lost)
    print(
        f"{'ok    ' if good else 'MISSED'} {deaths} deaths: fsck clean, no partial snapshot, no stuck lock, no accepted push lost "
        f"({time.monotonic() - begun:.0f} s)"
    )
    return good


def carry_out(folder: Path, options: argparse.Namespace) -> bool:
    """Do the parts that were asked for, also when the first one misses its bar; say whether all keep theirs."""
    done = []
    if options.part != "git":
        done.append(do_runs(folder, options.each, options.seed))
    if options.part != "runs":
        done.append(do_git(folder / "git", options.git, options.seed))
    return all(done)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; return 1 when its bar is missed."""
    parser = argparse.ArgumentParser(prog="bench crashes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=50, help="deaths at each place of a run (default: 50)")
    parser.add_argument("--git", type=int, default=200, help="deaths in pushes, exports and seeds (default: 200)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="default: a new one")
    parser.add_argument("--part", choices=("all", "runs", "git"), default="all")
    parser.add_argument("--keep", action="store_true", help="keep the state directories")
    options = parser.parse_args(arguments)
    print(f"seed       {options.seed}", flush=True)
    return in_a_folder("arena-crashes-", lambda folder: carry_out(folder, options), keep=options.keep)


if __name__ == "__main__":
    raise SystemExit(main())
