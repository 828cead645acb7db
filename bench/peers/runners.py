"""The evaluation runners compared: ours, inspect_ai with its mock model, promptfoo with its echo provider.

Each holds the same work: one turn a sample, one check of the turn and one of the conversation, no network.
"""

import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.installing import Unavailable, environment_with, install
from bench.peers.measure import Command, CommandFailed, Measured, measure

TRIALS_A_SCENARIO = 100
CONCURRENCY = 50
OUTPUT = "output.txt"
"""The file in a runner's directory that takes what it prints."""

INSPECT_TASK = """
import os
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes, match
from inspect_ai.solver import generate

ITEMS = int(os.environ["ITEMS"])

def reply():
    output = ModelOutput.from_content("mockllm/model", "the answer is 42")
    output.usage = ModelUsage(input_tokens=5, output_tokens=5, total_tokens=10)
    return output

@task
def mock():
    return Task(
        dataset=MemoryDataset([Sample(id=n + 1, input=f"question {n}", target="42") for n in range(ITEMS)]),
        solver=generate(),
        scorer=[includes(), match()],
        model=get_model("mockllm/model", custom_outputs=(reply() for _ in range(ITEMS))),
    )
"""

ARENA_FILES = {
    "prompts/p.yaml": """
apiVersion: promptkit.altairalabs.ai/v1alpha1
kind: PromptConfig
metadata: {name: p}
spec: {task_type: answer, version: v1.0.0, description: a mock, system_template: Answer.}
""",
    "providers/mock.yaml": """
apiVersion: promptkit.altairalabs.ai/v1alpha1
kind: Provider
metadata: {name: mock}
spec: {id: mock, type: mock, model: mock-model, additional_config: {mock_config: mock-responses.yaml}}
""",
    "mock-responses.yaml": "defaultResponse: the answer is 42\n",
}

PROMPTFOO_CHECKS = ({"type": "contains", "value": "42"}, {"type": "not-contains", "value": "forbidden"})

ARENA_SCENARIO = """
apiVersion: promptkit.altairalabs.ai/v1alpha1
kind: Scenario
metadata: {{name: {id}}}
spec:
  id: {id}
  task_type: answer
  description: one turn
  trials: {trials}
  turns:
    - {{role: user, content: question, assertions: [{{type: content_includes, params: {{patterns: ["42"]}}}}]}}
  conversation_assertions:
    - {{type: content_excludes, params: {{patterns: [forbidden]}}}}
"""


@dataclass(frozen=True, slots=True)
class Runner:
    """One runner: its name, how to make the command that evaluates so many items in an empty directory, and how many its traces there say passed."""

    name: str
    command: Callable[[Path, int], Command]
    passed: Callable[[Path], int]


def arena_bundle(trials: Sequence[int]) -> dict[str, str]:
    """Return the files of a bundle with one scenario an entry of `trials`, repeated so often, and one mock provider; every item passes."""
    files = dict(ARENA_FILES)
    names = []
    for number, times in enumerate(trials):
        names.append(f"scenarios/s{number:03}.scenario.yaml")
        files[names[-1]] = ARENA_SCENARIO.format(id=f"s{number:03}", trials=times)
    files["config.arena.yaml"] = "\n".join(
        [
            "apiVersion: promptkit.altairalabs.ai/v1alpha1",
            "kind: Arena",
            "metadata: {name: mock-throughput}",
            "spec:",
            "  prompt_configs: [{id: p, file: prompts/p.yaml}]",
            "  providers: [{file: providers/mock.yaml}]",
            "  scenarios:",
            *(f"    - file: {name}" for name in names),
            "  defaults: {temperature: 0.0, max_tokens: 100}",
        ],
    )
    return files


def arena(argv: tuple[str, ...]) -> Runner:
    """Return our runner, started by `argv`; `arena eval PATH -o json` is what it measures."""

    def command(directory: Path, items: int) -> Command:
        write_arena_bundle(directory, items, {})
        return Command((*argv, "eval", str(directory), "-o", "json", "-j", str(CONCURRENCY)), directory, {})

    return Runner("arena eval", command, arena_passed)


def write_arena_bundle(directory: Path, items: int, instead: Mapping[str, str]) -> None:
    """Write a bundle of so many items, with other texts `instead` of those of its files."""
    rest = items % TRIALS_A_SCENARIO
    trials = [TRIALS_A_SCENARIO] * (items // TRIALS_A_SCENARIO) + ([rest] if rest else [])
    for name, text in {**arena_bundle(trials), **instead}.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def inspect_ai(out: Path) -> Runner:
    """Return inspect_ai with mockllm, installed once into its own virtual environment below `out`.

    Raises:
        Unavailable: it cannot be installed.
    """
    program = environment_with(out / "inspect", ["inspect-ai"]) / "inspect"

    def command(directory: Path, items: int) -> Command:
        (directory / "mock_task.py").write_text(INSPECT_TASK)
        argv = (str(program), "eval", "mock_task.py", "--display", "none", "--max-samples", str(CONCURRENCY), "--log-dir", "logs")
        return Command(argv, directory, {"ITEMS": str(items)})

    return Runner("inspect_ai mockllm", command, inspect_samples)


def promptfoo(out: Path) -> Runner:
    """Return promptfoo with its echo provider, installed once below `out`.

    Raises:
        Unavailable: it cannot be installed, or there is no npm.
    """
    program = promptfoo_program(out)

    def command(directory: Path, items: int) -> Command:
        tests = [{"vars": {"q": f"question {number}, answer 42"}, "assert": PROMPTFOO_CHECKS} for number in range(items)]
        (directory / "config.json").write_text(json.dumps({"prompts": ["{{q}}"], "providers": ["echo"], "tests": tests}))
        return promptfoo_command(program, directory, ("-j", str(CONCURRENCY)))

    return Runner("promptfoo echo", command, promptfoo_passed)


def promptfoo_program(out: Path) -> Path:
    """Return promptfoo's program, installed once below `out`.

    Raises:
        Unavailable: it cannot be installed, or there is no npm.
    """
    home = out / "promptfoo"
    program = home / "node_modules" / ".bin" / "promptfoo"
    if not program.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise Unavailable("there is no npm")
        home.mkdir(parents=True, exist_ok=True)
        install([npm, "install", "--no-audit", "--no-fund", "--prefix", str(home), "promptfoo"])
    return program


def promptfoo_command(program: Path, directory: Path, options: tuple[str, ...]) -> Command:
    """Return the command that evaluates `config.json` of a directory, without what is no evaluation."""
    plain = ("--no-cache", "--no-progress-bar", "--no-table", "--no-share")
    quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "PROMPTFOO_CONFIG_DIR": str(directory / "state")}
    return Command((str(program), "eval", "-c", "config.json", *plain, *options), directory, quiet)


def arena_passed(directory: Path) -> int:
    """Return how many items `arena eval -o json` printed as passed."""
    return (directory / OUTPUT).read_bytes().count(b'"verdict":"pass","reused"')


def inspect_samples(directory: Path) -> int:
    """Return how many samples the log holds; its format keeps scores inside each."""
    (log,) = (directory / "logs").glob("*.eval")
    with zipfile.ZipFile(log) as archive:
        return sum(name.startswith("samples/") for name in archive.namelist())


def promptfoo_passed(directory: Path) -> int:
    """Return how many tests promptfoo says passed."""
    found = re.search(r"([\d,]+) passed", (directory / OUTPUT).read_text())
    return int(found[1].replace(",", "")) if found else 0


def run_once(runner: Runner, items: int) -> Measured:
    """Measure one evaluation of `items` items in a directory of its own.

    Raises:
        CommandFailed: it failed, or did not do all of the work.
    """
    with tempfile.TemporaryDirectory(prefix="arena-bench-") as name:
        directory = Path(name)
        measured = measure(runner.command(directory, items), directory / OUTPUT)
        if (passed := runner.passed(directory)) != items:
            raise CommandFailed(f"cannot measure {runner.name}: {passed} of {items} items passed")
        return measured
