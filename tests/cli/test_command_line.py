"""The command line before any server: help, errors, colours, pipes, bundles."""

import importlib
import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main

from arena.cli import COMMANDS
from tests.e2e.bundles import bundle
from tests.e2e.installation import ARENA, Done, clean_environment, run_command


def arena(folder: Path, *words: str, text: str = "", **environment: str) -> Done:
    """Run a command in a folder that is HOME, too."""
    return run_command([*ARENA, *words], environment=clean_environment(folder, **environment), cwd=folder, text=text)


def options() -> Iterator[tuple[str, Any]]:
    """Yield (command, option) for every option of every command."""
    app = typer.Typer()
    for module in dict.fromkeys(COMMANDS.values()):
        importlib.import_module(module).register(app)
    group = typer.main.get_command(app)
    assert sorted(getattr(group, "commands", {})) == sorted(COMMANDS)
    yield from options_of("", group)


def options_of(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield (command, option) for a command and for those below it."""
    for parameter in command.params:
        if parameter.param_type_name == "option" and parameter.name not in {"help", "install_completion", "show_completion"}:
            yield name, parameter
    for inner, below in sorted(getattr(command, "commands", {}).items()):
        yield from options_of(f"{name} {inner}".strip(), below)


def test_options_show_default_and_variable() -> None:
    """Every option of every command has help, a default that help shows, and an environment variable."""
    found = list(options())
    assert len(found) > 20
    assert [f"{command} {option.opts[0]}" for command, option in found if not (option.help and option.envvar and option.show_default)] == []


def test_help_shows_defaults_and_variables(tmp_path: Path) -> None:
    """What help prints has both."""
    done = arena(tmp_path, "up", "--help")
    assert done.code == 0
    for words in ("[env var: ARENA_PORT]", "[default: 7420]", "[env var: ARENA_STATE]", "[default: ~/.arena]", "[default: (cores)]"):
        assert words in done.out


def test_no_words_print_the_commands(tmp_path: Path) -> None:
    """`arena` alone lists every command and exits 0."""
    done = arena(tmp_path)
    assert done.code == 0
    assert [command for command in COMMANDS if command not in done.out] == []


MISTAKES = [
    pytest.param(["frobnicate"], "no such command 'frobnicate'", "arena --help", id="an unknown command"),
    pytest.param(["get", "arun", "--bogus"], "no such option: --bogus", "arena get --help", id="an unknown option"),
    pytest.param(["get"], "missing argument", "arena get --help", id="a missing argument"),
    pytest.param(["up", "--port", "99999"], "'--port'", "arena up --help", id="a number out of range"),
    pytest.param(["eval", ".", "-o", "xml"], "'xml'", "arena eval --help", id="an unknown format"),
    pytest.param(["get", "zebras"], "cannot find kind 'zebras'", "arenaruns", id="an unknown kind"),
    pytest.param(["get", "arun"], "cannot find a server", "arena up", id="no server"),
    pytest.param(["eval", "nowhere"], "cannot find bundle 'nowhere'", "arena init", id="no bundle"),
    pytest.param(["eval", ".", "--mock-config", "x.yaml"], "--mock-config without --mock-provider", "--mock-provider", id="half of a pair"),
    pytest.param(["delete"], "no object named", "arena delete KIND NAME", id="nothing to delete"),
    pytest.param(["worker"], "ARENA_RUN_UID is not set", "arena up", id="a worker by hand"),
]


@pytest.mark.parametrize(("words", "said", "remedy"), MISTAKES)
def test_mistake_gets_an_error_and_a_hint(tmp_path: Path, words: list[str], said: str, remedy: str) -> None:
    """A mistake exits 2 with `error: …` and `hint: …` on stderr, nothing on stdout, and no traceback."""
    done = arena(tmp_path, *words)
    assert (done.code, done.out) == (2, "")
    error, hint = done.err.splitlines()[:2]
    assert error.startswith("error: cannot ")
    assert said in error
    assert hint.startswith("hint: ")
    assert remedy in hint


def test_version(tmp_path: Path) -> None:
    """`arena --version` prints name and version."""
    assert arena(tmp_path, "--version").out.startswith("arena 0.")


def on_terminal(folder: Path, *words: str, **environment: str) -> str:
    """Return what a command prints on a terminal."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [*ARENA, *words], stdin=terminal, stdout=terminal, stderr=terminal, cwd=folder, env=clean_environment(folder, **environment)
    )
    os.close(terminal)
    printed = b""
    while True:
        try:
            chunk = os.read(controller, 4096)
        except OSError:  # how Linux says that the last writer has closed the terminal
            break
        if not chunk:
            break
        printed += chunk
    process.wait()
    os.close(controller)
    return printed.decode()


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)], ids=["a terminal", "a terminal with NO_COLOR"])
def test_colours_only_where_wanted(tmp_path: Path, variables: dict[str, str], *, coloured: bool) -> None:
    """A terminal gets colours unless NO_COLOR is set."""
    assert ("\x1b[" in on_terminal(tmp_path, "eval", "nowhere", **variables)) is coloured


def test_no_colours_in_a_pipe(tmp_path: Path) -> None:
    """What is no terminal gets no escape sequence."""
    done = arena(tmp_path, "eval", "nowhere")
    assert "\x1b" not in done.out + done.err


@pytest.fixture
def small_bundle(tmp_path: Path) -> Path:
    """Write a bundle with a scenario that passes and one that fails."""
    folder = tmp_path / "bundle"
    files = dict(bundle(scenarios=2))
    files["scenarios/s1.yaml"] = files["scenarios/s1.yaml"].replace('"30 days"', '"90 days"')
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def test_closed_pipe_is_quiet(tmp_path: Path, small_bundle: Path) -> None:
    """A reader that has seen enough, as `head` has, gets no complaint; the exit code is that of SIGPIPE, since no verdict was given."""
    words = " ".join([*ARENA, "eval", str(small_bundle), "--trials", "3000", "-o", "json"])
    done = run_command(["bash", "-c", f"set -o pipefail; {words} | head -c 10"], environment=clean_environment(tmp_path), cwd=tmp_path)
    assert done.out == '{"summary"'
    assert done.err == ""
    assert done.code == 141


def test_starter_bundle_is_valid_and_passes(tmp_path: Path) -> None:
    """`init` writes a bundle that `validate` and `eval` take as it is, says what to type next, and refuses to write over one."""
    made = arena(tmp_path, "init", "mine")
    assert made.code == 0
    assert "arena eval mine" in made.err
    assert all((tmp_path / line).is_file() for line in made.out.splitlines())
    checked = arena(tmp_path, "validate", "mine")
    assert checked.code == 0
    assert checked.out.endswith(": 0 errors, 0 warnings\n"), checked.out
    assert arena(tmp_path, *made.err.split()[1:]).code == 0
    again = arena(tmp_path, "init", "mine")
    assert again.code == 2
    assert "exists" in again.err


def test_validate_names_file_line_and_near_miss(tmp_path: Path, small_bundle: Path) -> None:
    """A mistyped key is an error with its place and the key that was meant; exit 2."""
    config = small_bundle / "config.arena.yaml"
    config.write_text(config.read_text().replace("  providers:", "  providrs:"))
    done = arena(tmp_path, "validate", str(small_bundle))
    assert done.code == 2
    assert "error: config.arena.yaml:9: " in done.out
    assert "'providers'" in done.out


def test_eval_table(tmp_path: Path, small_bundle: Path) -> None:
    """The table has a row a cell, each failure with the command that runs it again, and the verdict; exit 1."""
    done = arena(tmp_path, "eval", str(small_bundle))
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0].split() == ["SCENARIO", "PROVIDER", "ITEMS", "PASSED", "FAILED", "ERRORS"]
    assert lines[1].split() == ["s0", "model", "1", "1", "0", "0"]
    assert "fail  s1 x model  trial 1" in done.out
    assert "--scenario s1 --provider model" in done.out
    assert lines[-1].startswith("failed  1 of 2 items  pass rate 50.0 %")


def test_eval_repeats_what_it_advises(tmp_path: Path, small_bundle: Path) -> None:
    """The line under a failure, typed in the bundle's folder, gives that failure again and nothing else."""
    line = next(line.strip() for line in arena(tmp_path, "eval", str(small_bundle)).out.splitlines() if "arena eval" in line)
    again = run_command([*ARENA, *line.split()[1:], "-o", "json"], environment=clean_environment(tmp_path), cwd=small_bundle)
    assert [item["item"] for item in json.loads(again.out)["items"]] == ["s1/model/1"]
    assert again.code == 1


def test_eval_writes_result_files(tmp_path: Path, small_bundle: Path) -> None:
    """--out leaves the four files; stdout stays the data that -o asks for."""
    done = arena(tmp_path, "eval", str(small_bundle), "--out", "out", "-o", "json")
    document = json.loads(done.out)
    assert document["summary"]["verdict"] == "fail"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["junit.xml", "report.md", "results.jsonl", "summary.json"]
    written = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    assert [item["item"] for item in written] == [item["item"] for item in document["items"]]


def test_variable_stands_for_an_option_and_the_line_wins(tmp_path: Path, small_bundle: Path) -> None:
    """ARENA_SCENARIO selects as --scenario does; --scenario on the line is taken instead."""
    by_variable = arena(tmp_path, "eval", str(small_bundle), ARENA_SCENARIO="s0")
    assert by_variable.code == 0, by_variable.err
    assert arena(tmp_path, "eval", str(small_bundle), "--scenario", "s1", ARENA_SCENARIO="s0").code == 1


def test_doctor_without_a_server(tmp_path: Path) -> None:
    """Doctor looks, makes nothing, and finds nothing wrong where nothing runs yet."""
    done = arena(tmp_path, "doctor", "--state", str(tmp_path / "state"))
    assert done.code == 0
    assert "not running" in done.out
    assert not (tmp_path / "state").exists()


def test_doctor_as_json(tmp_path: Path) -> None:
    """`-o json` prints every finding as an object, and how many of them are problems."""
    done = arena(tmp_path, "doctor", "-o", "json", PATH="/nonexistent")
    report = json.loads(done.out)
    assert (done.code, report["problems"] >= 1) == (2, True)
    assert {"state": "bad", "thing": "git", "cause": "not installed", "remedy": "install git 2.39 or newer"} in report["findings"]


def test_doctor_finds_a_missing_git(tmp_path: Path) -> None:
    """Doctor exits 2 and says what to install."""
    done = arena(tmp_path, "doctor", PATH="/nonexistent")
    assert done.code == 2
    assert "bad  git: not installed; install git 2.39 or newer" in done.out
