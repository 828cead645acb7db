"""Notes of validation: a bundle that is right, and does what its author hardly means."""

import pytest

from engine.bundle.problems import Severity
from engine.validate import validate_bundle
from tests.bundle.conftest import ARENA, PROVIDER, SCENARIO, Write

C, S, P, M = "config.arena.yaml", "scenarios/hello.yaml", "providers/mock.yaml", "mock.yaml"
REFEREE = PROVIDER.replace("name: mock", "name: referee")
WITH_REFEREE = ARENA.replace("    - file: providers/mock.yaml\n", "    - file: providers/mock.yaml\n    - {file: providers/referee.yaml}\n")
JUDGED = WITH_REFEREE + "  judges: [{name: tone, provider: referee}]\n"
APART = JUDGED.replace("{file: providers/referee.yaml}", "{file: providers/referee.yaml, group: judges}")


def notes_of(write: Write, changes: dict[str, str]) -> list[tuple[str, str]]:
    """Return the notes of a bundle, each with its hint."""
    return [(problem.message, problem.hint) for problem in validate_bundle(write(changes)) if problem.severity is Severity.NOTE]


def test_a_judge_that_is_tested_too(write: Write) -> None:
    """A judge's provider without a group of its own is tested like any other, and its author is told; with a group it is not."""
    both = {"providers/referee.yaml": REFEREE}
    hint = "a group of its own (`group: judges`) keeps it out"
    assert notes_of(write, both | {C: JUDGED}) == [("provider 'referee' is the judge 'tone', and is tested too", hint)]
    assert notes_of(write, both | {C: APART}) == []


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        pytest.param("defaultResponse: hi\nscenarios: {hello: {turns: {1: hi}}}\n", [], id="an answer for it"),
        pytest.param("defaultResponse: hi\n", [], id="an answer for all"),
        pytest.param(
            "scenarios: {other: {turns: {1: hi}}}\n",
            ["mock 'mock' has no answer for scenario 'hello': it says a text that names provider and model"],
            id="an answer for another",
        ),
        pytest.param(
            "defaultResponse: hi\nscenarios: {helo: {turns: {1: hi}}}\n",
            ["'mock.yaml' answers for scenario 'helo', which the bundle does not have"],
            id="13: a name that is nearly right",
        ),
    ],
)
def test_a_mock_that_has_nothing_to_say(write: Write, answers: str, said: list[str]) -> None:
    """A mock's file that answers for other scenarios than the bundle's is spoken of."""
    assert [message for message, _ in notes_of(write, {M: answers})] == said


def test_13_an_id_that_does_not_count_is_spoken_of(write: Write) -> None:
    """Answers, filters and results go by metadata.name; a spec's own id that differs misleads whoever writes them."""
    said = "'id' is 'greeting', and metadata.name 'hello' is what counts"
    assert notes_of(write, {S: SCENARIO.replace("  task_type", "  id: greeting\n  task_type")}) == [(said, "")]
    assert notes_of(write, {S: SCENARIO.replace("  task_type", "  id: hello\n  task_type")}) == []


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param("system_template: x\n  style: {verbositi: short}", "unknown key 'verbositi' in `style`", id="a trait"),
        pytest.param("system_template: x\n  golas: [a]", "unknown key 'golas' in a persona's spec", id="a key"),
        pytest.param("system_template: x\n  style: {verbosity: chatty}", "cannot read 'verbosity': unknown value 'chatty'", id="a value"),
    ],
)
def test_42_a_mistyped_persona_is_refused(write: Write, spec: str, said: str) -> None:
    """Personas are read as strictly as everything else."""
    persona = f"kind: Persona\nmetadata: {{name: p}}\nspec:\n  {spec}\n"
    arena = ARENA + "  self_play: {personas: [{file: p.yaml}], roles: [{id: crowd, provider: mock}]}\n"
    found = validate_bundle(write({C: arena, "p.yaml": persona}))
    assert [problem.message for problem in found if problem.severity is Severity.ERROR] == [said]
