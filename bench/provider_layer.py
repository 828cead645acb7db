"""Requests a second of the provider layer beside a bare aiohttp loop, and of whole items beside inspect_ai and promptfoo, at 200 ms a request.

    python -m bench provider_layer [--repeat 2] [--arena .venv/bin/arena] [--only NAME]

A loopback server in a process of its own answers each request after 200 ms, so the ideal is what is in flight, five times a second. The layer and the bare
loop run in one process each, in turns, at 50, 200 and 1,000 in flight; of `--repeat` passes the best counts for both, since neighbours on a machine can
only slow. Whole items are `arena eval` and the peers, at 50 and 200 in flight; their rates are net of start-up, which is the wall of one item without its
request. Peers install themselves into bench/out/; one that cannot be had is named and left out. Exit 1 when a bar is missed.
"""

import argparse
import shlex
import sys
from pathlib import Path

from bench.model_clients import Figures, run
from bench.model_server import serving
from bench.peers import remote_runners
from bench.peers.installing import Unavailable
from bench.peers.measure import CommandFailed
from bench.peers.runners import Runner, run_once

OUT = Path(__file__).parent / "out"
LATENCY_S = 0.2
ROUNDS = 16
"""How often each place in flight asks."""

LAYER_BARS = {50: 0.97, 200: 0.97, 1000: 0.90}
"""Share of the bare loop's rate, by what is in flight."""

ITEM_BARS = {50: 0.90, 200: 0.80}
"""Share of the ideal rate."""

PEER_ITEMS = {50: 250, 200: 400}
"""Peers are slower, and their rate is known after fewer."""


def best(client: str, port: int, in_flight: int, repeat: int) -> Figures:
    """Return the fastest pass of a client."""
    return max((run(client, port, in_flight, in_flight * ROUNDS) for _ in range(repeat)), key=lambda figures: figures.requests_per_s)


def layer_meets(port: int, repeat: int) -> bool:
    """Compare the layer with the bare loop; return whether its bars are met."""
    met = True
    print(f"{'in flight':>9} {'ideal':>7} {'bare aiohttp':>22} {'provider layer':>22}   share")
    for in_flight, bar in LAYER_BARS.items():
        bare, ours = best("bare", port, in_flight, repeat), best("ours", port, in_flight, repeat)
        share = ours.requests_per_s / bare.requests_per_s
        met &= share >= bar
        columns = (f"{figures.requests_per_s:>8.0f}/s {figures.cpu_ms:>5.3f} ms CPU" for figures in (bare, ours))
        print(
            f"{in_flight:>9} {in_flight / LATENCY_S:>5.0f}/s {' '.join(columns)}   {share:.3f} (bar {bar}) {'ok' if share >= bar else 'MISS'}",
            flush=True,
        )
    return met


def share_of_ideal(runner: Runner, items: int, in_flight: int) -> float:
    """Measure a runner's items, net of its start-up, print them, and return their share of the ideal rate."""
    one, many = run_once(runner, 1), run_once(runner, items)
    start_s = max(one.wall_s - LATENCY_S, 0.0)
    rate = items / max(many.wall_s - start_s, 1e-9)
    cpu_ms = 1000 * (many.cpu_s - one.cpu_s) / (items - 1)
    share = rate * LATENCY_S / in_flight
    print(
        f"{in_flight:>9} {runner.name:<12} {rate:>7.0f} items/s  {cpu_ms:>6.2f} ms CPU an item  start-up {start_s:.2f} s  {share:>6.1%} of the ideal",
        end="",
    )
    return share


def items_meet(argv: tuple[str, ...], port: int) -> bool:
    """Measure `arena eval`; return whether its bars are met."""
    met = True
    for in_flight, bar in ITEM_BARS.items():
        share = share_of_ideal(remote_runners.arena(argv, port, in_flight), in_flight * ROUNDS, in_flight)
        met &= share >= bar
        print(f" (bar {bar:.0%}) {'ok' if share >= bar else 'MISS'}", flush=True)
    return met


def show_peers(port: int, only: str | None) -> None:
    """Measure the peers that can be had."""
    for peer in (remote_runners.inspect_ai, remote_runners.promptfoo):
        if only and only not in peer.__name__:
            continue
        try:
            for in_flight, items in PEER_ITEMS.items():
                share_of_ideal(peer(OUT, port, in_flight), items, in_flight)
                print(flush=True)
        except (Unavailable, CommandFailed) as error:
            print(f"skipped: {peer.__name__}: {error}")


def main() -> int:
    """Run the comparison; return 0 when every bar is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--arena", default=str(Path(sys.executable).with_name("arena")), help="the command that starts arena")
    parser.add_argument("--only", help="only peers whose name contains this; 'none' for no peer")
    options = parser.parse_args()
    with serving(latency_ms=1000 * LATENCY_S) as port:
        layer = layer_meets(port, options.repeat)
        items = items_meet(tuple(shlex.split(options.arena)), port)
        show_peers(port, options.only)
    return 0 if layer and items else 1


if __name__ == "__main__":
    sys.exit(main())
