"""Several git servers over one volume: what deaths amid pushes leave behind, and what sharing costs.

    python -m bench git_replicas [--deaths 200] [--seed N] [--part all|deaths|rates]

Deaths: four people push to two repositories through three servers while a controller repacks them; servers and controller die by kill -9 in an order
that comes from the seed, each with all its git processes. Bars: every accepted push is in main, git fsck is silent, no lock is left, and afterwards
every replica takes a push. Rates: pushes through one, two and three servers, to one repository and to many. There is no peer: servers that share a
volume without a lock of their own are what `git http-backend` behind nginx is, and the locks of refs are git's in both.
"""

import argparse
import asyncio
import secrets
from collections.abc import Sequence
from pathlib import Path

from bench.installation import in_a_folder
from bench.replica_deaths import ReplicaDeaths
from bench.replica_pods import Replicas
from bench.replica_rates import lock_ms, rate_of

SERVERS = 3
MANY = 4


def strike(folder: Path, deaths: int, seed: int) -> bool:
    """Let replicas die, print the account, and say whether it holds."""
    root = folder / "content"
    root.mkdir()
    with Replicas(root, SERVERS, controller=True) as replicas:
        trial = ReplicaDeaths(folder, replicas, seed)
        asyncio.run(trial.prepare())
        trial.run(deaths)
        slowest = trial.settle()
        left = trial.left()
    lost, damage = trial.lost(), trial.damage()
    print(f"deaths     {sum(trial.deaths.values())}: {_counted(trial.deaths)}")
    print(f"pushes     {sum(trial.ends.values())}: {_counted(trial.ends)}")
    print(f"afterwards a push is accepted after at most {max(slowest.values()):.1f} s")
    bars = {"lost": lost, "fsck": damage, "left": left, "refused": trial.failures}
    for name, found in bars.items():
        print(f"{name:<10} {len(found)}{''.join(f'{chr(10)}  {words}' for words in found[:5])}")
    return not any(bars.values()) and trial.accepted > 0


def measure(folder: Path, pushes: int) -> None:
    """Print what one, two and three servers take."""
    print(f"lock       {asyncio.run(lock_ms(folder / 'locks')):.3f} ms to take and give back")
    for what, projects in (("one repository", 1), ("many repositories", MANY)):
        for replicas in range(1, SERVERS + 1):
            rate = rate_of(folder / f"{replicas}-{projects}", replicas, projects=projects, pushes=pushes)
            spread = f"p50 {rate.p50_s * 1000:.0f} ms, p95 {rate.p95_s * 1000:.0f} ms, {rate.cpu_s * 1000:.0f} ms of the servers' CPU a push"
            print(f"rate       {what:<18} {replicas} replicas: {rate.a_second:5.1f} pushes/s, {rate.overtaken:4.0%} overtaken, {spread}", flush=True)


def _counted(numbers: "dict[str, int]") -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(numbers.items(), key=lambda pair: -pair[1]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out what the command line asks for; return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="bench git_replicas", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deaths", type=int, default=200, help="how many replicas die (default: 200)")
    parser.add_argument("--pushes", type=int, default=25, help="pushes of each of four people in a round of the rates (default: 25)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="default: a new one")
    parser.add_argument("--part", choices=("all", "deaths", "rates"), default="all")
    parser.add_argument("--keep", action="store_true", help="keep the volumes")
    options = parser.parse_args(arguments)
    print(f"seed       {options.seed}", flush=True)

    def trial(folder: Path) -> bool:
        if options.part != "deaths":
            measure(folder, options.pushes)
        return options.part == "rates" or strike(folder, options.deaths, options.seed)

    return in_a_folder("arena-git-replicas-", trial, keep=options.keep)


if __name__ == "__main__":
    raise SystemExit(main())
