"""A bundle is not trusted: bombs, depth, sizes and odd files end in one clear error."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from engine.bundle import files, load_bundle
from engine.bundle.model import Location
from engine.bundle.problems import MAX_PROBLEMS, Problems
from engine.bundle.variables import render
from engine.errors import BundleInvalid

Write = Callable[[Mapping[str, str | bytes | None]], Path]
HEAD = "kind: Scenario\nmetadata: {name: hello}\nspec:\n  task_type: assistant\n  turns: [{role: user, content: Hello}]\n"
BOMB = "  context:\n    a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"    a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)
UNFOLDS = "cannot read the file: it is nested too deeply, or its aliases unfold into too much"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(HEAD + BOMB, UNFOLDS, id="a billion laughs"),
        pytest.param(HEAD + "  context: &loop [*loop]\n", UNFOLDS, id="an alias of itself"),
        pytest.param(HEAD + "  context: " + "[" * 150 + "]" * 150 + "\n", UNFOLDS, id="deep nesting"),
        pytest.param(
            HEAD + "  context: " + "[" * 50_000 + "\n", "cannot parse the file: exceeded maximum nesting depth", id="deeper than the parser goes"
        ),
        pytest.param(HEAD + "  context: [" + "[]," * 300_000 + "]\n", UNFOLDS, id="more nodes than a file has"),
        pytest.param(HEAD + "  context:\n    " + "- " * 20_000 + "\n", "cannot parse the file", id="a line of list markers"),
        pytest.param(HEAD + "  context:\n" + "".join(" " * (4 + n) + "- \n" for n in range(2_000)), "", id="a staircase of lists"),
    ],
)
def test_bombs(write: Write, text: str, message: str) -> None:
    """A file that unfolds beyond every limit is refused at once."""
    started = time.process_time()
    root = write({"scenarios/hello.yaml": text})
    try:
        load_bundle(root)
    except BundleInvalid as error:
        assert message in error.message  # noqa: PT017 - the staircase may also load: it is only long
    else:
        assert not message
    assert time.process_time() - started < 30


def test_file_over_the_limit(write: Write) -> None:
    """A file over the limit is not read; the message gives both sizes."""
    root = write({"scenarios/hello.yaml": HEAD + "#" * files.MAX_FILE_BYTES})
    with pytest.raises(BundleInvalid, match=r"cannot read 'scenarios/hello.yaml': its 4,194,\d+ bytes are over the limit of 4,194,304 for one file"):
        load_bundle(root)


def test_warnings_do_not_crowd_out_an_error(write: Write) -> None:
    """However many warnings come first, an error is kept: a bundle that is wrong never loads."""
    checks = "      assertions:\n" + "".join(
        f"        - {{type: contains, params: {{patterns: [hi]}}, pass_threshold: 0.{n}}}\n" for n in range(1, MAX_PROBLEMS + 10)
    )
    arena = "kind: Arena\nmetadata: {name: small}\nspec:\n  prompt_configs: [{id: assistant, file: prompts/assistant.yaml}]\n"
    arena += "  providers: [{file: providers/mock.yaml}]\n  scenarios: [{file: scenarios/hello.yaml}, {file: scenarios/gone.yaml}]\n"
    hello = "kind: Scenario\nmetadata: {name: hello}\nspec:\n  task_type: assistant\n  turns:\n    - role: user\n      content: Hello\n"
    with pytest.raises(BundleInvalid, match=r"cannot find 'scenarios/gone\.yaml'"):
        load_bundle(write({"config.arena.yaml": arena, "scenarios/hello.yaml": hello + checks}))


def test_pipe_does_not_block(write: Write) -> None:
    """A pipe in place of a file is refused, not waited for."""
    root = write({"scenarios/hello.yaml": None})
    (root / "scenarios").mkdir()
    os.mkfifo(root / "scenarios/hello.yaml")
    with pytest.raises(BundleInvalid, match="it is not a regular file"):
        load_bundle(root)


@pytest.mark.parametrize(
    ("files_left", "bytes_left", "message"),
    [
        pytest.param(1, 100, "config.arena.yaml:1: cannot read 'mock.yaml': the arena names more than 5,000 files", id="files"),
        pytest.param(9, 40, "config.arena.yaml:1: cannot read 'mock.yaml': the files of this arena hold more than 67,108,864 bytes", id="bytes"),
    ],
)
def test_bundle_over_the_limit(small: Path, files_left: int, bytes_left: int, message: str) -> None:
    """The files of one arena are bounded together, in number and size."""
    problems = Problems()
    opened = files.BundleFiles(small, problems, files_left=files_left, bytes_left=bytes_left)
    named_at = Location("config.arena.yaml", 1)
    assert opened.open("mock.yaml", named_at) is not None
    assert opened.open("mock.yaml", named_at) is None
    assert [str(problem) for problem in problems.all] == [message]


@pytest.mark.slow
def test_bundle_of_many_bombs(write: Write) -> None:
    """What all files unfold into is bounded together: many files that each stay within their own limit end soon."""
    bomb = "  context:\n    a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"    a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 5)
    )
    names = [f"s{n}" for n in range(300)]
    arena = "kind: Arena\nmetadata: {name: small}\nspec:\n  prompt_configs: [{id: assistant, file: prompts/assistant.yaml}]\n"
    arena += "  providers: [{file: providers/mock.yaml}]\n  scenarios:\n" + "".join(f"    - file: {name}.yaml\n" for name in names)
    root = write({"config.arena.yaml": arena, **{f"{name}.yaml": HEAD.replace("hello}", f"{name}}}") + bomb for name in names}})
    started = time.process_time()
    with pytest.raises(BundleInvalid, match="unfold into too much"):
        load_bundle(root)
    assert time.process_time() - started < 60


def test_variables_that_hold_each_other() -> None:
    """Values that multiply each other end in an error, not in memory."""
    values = {f"v{n}": f"{{{{v{n + 1}}}}}" * 100 for n in range(9)}
    with pytest.raises(BundleInvalid, match="it grows beyond 1,048,576 characters"):
        render("{{v0}}", values)


def test_small_bundle_loads_fast(corpus: Path) -> None:
    """guardrails-test loads in under 50 ms of CPU, once the modules are there."""
    load_bundle(corpus / "guardrails-test")
    best = min(_seconds(corpus / "guardrails-test") for _ in range(5))
    assert best < 0.05


def _seconds(root: Path) -> float:
    started = time.process_time()
    load_bundle(root)
    return time.process_time() - started
