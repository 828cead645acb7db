"""Lists and runs the benches, each in a process of its own, so that none measures what another left behind.

    python -m bench                 run all of them, which takes hours: `steady` alone takes one
    python -m bench --list          say what there is
    python -m bench NAME [NAME …]   run these
    python -m bench NAME --help     the options of one; they follow its name

Every bench prints its figures, its peer or why it has none, and its bars. Exit 1 when one misses a bar or fails, 2 when there is none of the name.
"""

import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

BENCHES = (
    "mock_throughput",
    "provider_layer",
    "streaming_call",
    "push_latency",
    "webhook_latency",
    "admission_latency",
    "mirrors",
    "git_serving",
    "git_replicas",
    "queue_throughput",
    "snapshot_export",
    "kills",
    "crashes",
    "cluster_chaos",
    "steady",
    "store",
    "cluster_store",
)
"""In the order in which they run: `bench/<name>.py` is a module with a main of its own."""

EXIT_UNKNOWN = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benches that the arguments name, or all of them."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    names = words[: next((at for at, word in enumerate(words) if word.startswith("-")), len(words))]
    options = words[len(names) :]
    if unknown := [name for name in names if name not in BENCHES]:
        sys.stderr.write(f"error: there is no bench '{unknown[0]}'\nhint: {', '.join(BENCHES)}\n")
        return EXIT_UNKNOWN
    if not names and options:
        print((__doc__ or "").strip() if options != ["--list"] else listing())
        return 0 if options in (["--list"], ["--help"], ["-h"]) else EXIT_UNKNOWN
    if len(names) > 1 and options:
        sys.stderr.write("error: options belong to one bench\nhint: python -m bench NAME --help\n")
        return EXIT_UNKNOWN
    return run(names or BENCHES, options)


def run(names: Sequence[str], options: Sequence[str]) -> int:
    """Run benches one after the other; return 1 when one of them does not exit with 0."""
    codes = {}
    for name in names:
        if len(names) > 1:
            print(f"\n== {name}: {purpose_of(name)}", flush=True)
        codes[name] = subprocess.run([sys.executable, "-m", f"bench.{name}", *options], check=False).returncode
    if len(names) > 1:
        print()
        for name, code in codes.items():
            print(f"{'ok    ' if code == 0 else 'MISSED'} {name}")
    return 1 if any(codes.values()) else 0


def listing() -> str:
    """Return a line a bench."""
    return "\n".join(f"{name:<18} {purpose_of(name)}" for name in BENCHES)


def purpose_of(name: str) -> str:
    """Return the first sentence of a bench's docstring, without importing it."""
    text = ast.get_docstring(ast.parse(Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).partition(". ")[0].rstrip(".")


if __name__ == "__main__":
    raise SystemExit(main())
