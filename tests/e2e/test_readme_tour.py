"""The tour of the README, typed command by command: it works, and what it prints is what the README shows."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.installation import ARENA, Namespace, Server, run_command

pytestmark = pytest.mark.e2e
README = Path(__file__).parents[2] / "README.md"
README_URL = "http://127.0.0.1:7420"
CHANGING = (
    (r"http://127\.0\.0\.1:\d+", "URL"),
    (r"\b(support-eval)-[b-z2-9]{5}\b", r"\1-SUFFIX"),
    (r"\b[0-9a-f]{12}\b", "COMMIT"),
    (r"\b\d+s\b", "AGE"),
    (r" +", " "),
)


def commands() -> Iterator[tuple[str, str]]:
    """Yield each command of the tour with what the README says it prints; `arena up` is left out."""
    tour = README.read_text(encoding="utf-8").partition("## A tour")[2].partition("\n## ")[0]
    for block in re.findall(r"^```\n(.*?)^```", tour, flags=re.DOTALL | re.MULTILINE):
        for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = entry.partition("END\n") if "<<'END'" in entry.partition("\n")[0] else entry.partition("\n")
            if not command.startswith("arena up"):
                yield f"{command}END\n" if "<<'END'" in command else command, printed


def plain(text: str) -> list[str]:
    """Return the lines without what differs from run to run."""
    for pattern, word in CHANGING:
        text = re.sub(pattern, word, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def test_tour_prints_what_the_readme_shows(installation: Server, tmp_path: Path) -> None:
    """Every command of the tour prints what stands below it, but for addresses, names and times."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    wrapper = bin_folder / "arena"
    wrapper.write_text(f'#!/bin/sh\nexec "{ARENA[0]}" -m arena "$@"\n')
    wrapper.chmod(0o755)
    namespace = Namespace(installation, "default", tmp_path)
    path = f"{bin_folder}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    environment = {**installation.environment, **namespace.git.environment, "PATH": path, "ARENA_STATE": str(installation.state.root)}
    folder, typed = tmp_path, list(commands())
    assert len(typed) >= 6
    for command, printed in typed:
        if command.startswith("arena runs"):
            namespace.ended_run()
        told = tmp_path / "pwd"
        script = f"{command.replace(README_URL, installation.url)}\npwd > '{told}'"
        done = run_command(["bash", "-c", script], environment=environment, cwd=folder)
        assert done.code == 0, f"$ {command}\n{done.out}{done.err}"
        folder = Path(told.read_text().strip())
        shown, wanted = plain(done.out + done.err), plain(printed)
        missing = [line for line in wanted if line not in shown]
        assert missing == [], f"$ {command}\n{done.out}{done.err}"
