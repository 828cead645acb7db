"""The evaluation runners compared over a real protocol: ours, inspect_ai and promptfoo, each asking the same loopback model (bench/model_server.py).

Each holds the same work: one turn a sample, one check of the turn and one of the conversation, so many requests in flight, its own quickest settings.
"""

import json
from pathlib import Path

from bench.peers.installing import environment_with
from bench.peers.measure import Command
from bench.peers.runners import (
    PROMPTFOO_CHECKS,
    Runner,
    arena_passed,
    inspect_samples,
    promptfoo_command,
    promptfoo_passed,
    promptfoo_program,
    write_arena_bundle,
)

MODEL = "gpt-4o"
"""A name that every peer has in its tables; what answers is the loopback server."""

INSPECT_TASK = """
import os
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import includes, match
from inspect_ai.solver import generate

@task
def remote():
    samples = [Sample(id=n + 1, input=f"question {n}", target="42") for n in range(int(os.environ["ITEMS"]))]
    return Task(dataset=MemoryDataset(samples), solver=generate(), scorer=[includes(), match()])
"""

PROVIDER = """
apiVersion: promptkit.altairalabs.ai/v1alpha1
kind: Provider
metadata: {{name: mock}}
spec: {{id: mock, type: openai, model: {model}, base_url: "http://127.0.0.1:{port}/v1", credential: {{credential_env: BENCH_KEY}}}}
"""


def arena(argv: tuple[str, ...], port: int, in_flight: int) -> Runner:
    """Return ours, started by `argv`."""

    def command(directory: Path, items: int) -> Command:
        write_arena_bundle(directory, items, {"providers/mock.yaml": PROVIDER.format(model=MODEL, port=port)})
        options = ("-o", "json", "-j", str(in_flight), "--allow-network", "127.0.0.0/8")
        return Command((*argv, "eval", str(directory), *options), directory, {"BENCH_KEY": "sk-bench"})

    return Runner("arena eval", command, arena_passed)


def inspect_ai(out: Path, port: int, in_flight: int) -> Runner:
    """Return inspect_ai with its OpenAI provider, installed once into its own virtual environment below `out`.

    Raises:
        Unavailable: it cannot be installed.
    """
    program = environment_with(out / "inspect-openai", ["inspect-ai", "openai"]) / "inspect"

    def command(directory: Path, items: int) -> Command:
        (directory / "remote_task.py").write_text(INSPECT_TASK)
        limits = ("--max-connections", str(in_flight), "--max-samples", str(in_flight))
        quiet = ("--display", "none", "--no-log-realtime", "--log-dir", "logs")
        argv = (str(program), "eval", "remote_task.py", "--model", f"openai/{MODEL}", *limits, *quiet)
        return Command(argv, directory, {"ITEMS": str(items), "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": "sk-bench"})

    return Runner("inspect_ai", command, inspect_samples)


def promptfoo(out: Path, port: int, in_flight: int) -> Runner:
    """Return promptfoo with its OpenAI provider, installed once below `out`; it writes no database.

    Raises:
        Unavailable: it cannot be installed, or there is no npm.
    """
    program = promptfoo_program(out)
    provider = {"id": f"openai:chat:{MODEL}", "config": {"apiBaseUrl": f"http://127.0.0.1:{port}/v1", "apiKey": "sk-bench", "max_tokens": 100}}

    def command(directory: Path, items: int) -> Command:
        tests = [{"vars": {"q": f"question {number}"}, "assert": PROMPTFOO_CHECKS} for number in range(items)]
        (directory / "config.json").write_text(json.dumps({"prompts": ["{{q}}"], "providers": [provider], "tests": tests}))
        return promptfoo_command(program, directory, ("--no-write", "-j", str(in_flight)))

    return Runner("promptfoo", command, promptfoo_passed)
