"""What a plan does that the author of its bundle may not mean: a judge that is tested, a mock that has nothing to say.

Notes, never warnings: all of it is as the format has it. Owns these sentences. Must not run anything.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.bundle.mock_reader import load_mock_responses
from engine.bundle.model import Bundle
from engine.bundle.problems import Problem, Severity, nearest, shown

if TYPE_CHECKING:
    from engine.plan import Plan


def advice_of(bundle: Bundle, plan: "Plan") -> Iterator[Problem]:
    """Yield a note for each such thing, at the provider that it is about."""
    tested: dict[str, list[str]] = {}
    for cell in plan.cells:
        tested.setdefault(cell.provider, []).append(cell.scenario)
    for ident, scenarios in tested.items():
        if ident in bundle.providers:
            yield from _of_those_that_serve(bundle, ident)
            if bundle.providers[ident].type == "mock":
                yield from _of_a_mock(bundle, ident, scenarios)


def _of_those_that_serve(bundle: Bundle, ident: str) -> Iterator[Problem]:
    offices = [f"is the judge '{judge.name}'" for judge in bundle.arena.judges if judge.provider == ident]
    offices += [f"plays the user '{role.id}'" for role in bundle.arena.roles if role.provider == ident]
    if offices and bundle.providers[ident].group == "default":
        yield _note(bundle, ident, f"provider '{ident}' {offices[0]}, and is tested too", "a group of its own (`group: judges`) keeps it out")


def _of_a_mock(bundle: Bundle, ident: str, scenarios: list[str]) -> Iterator[Problem]:
    file = bundle.providers[ident].mock_config
    if not file:
        return
    answers = load_mock_responses(bundle.root, file)
    for scenario in scenarios if answers.default_response is None else ():
        if scenario in bundle.scenarios and scenario not in answers.scenarios:
            message = f"mock '{ident}' has no answer for scenario '{scenario}': it says a text that names provider and model"
            yield _note(bundle, ident, message, f"add it to '{file}', or a defaultResponse")
    for name in answers.scenarios:
        near = nearest(name, bundle.scenarios) if name not in bundle.scenarios else ""
        if near:
            yield _note(bundle, ident, f"'{file}' answers for scenario '{shown(name)}', which the bundle does not have", f"did you mean '{near}'?")


def _note(bundle: Bundle, ident: str, message: str, hint: str) -> Problem:
    place = bundle.providers[ident].location
    return Problem(Severity.NOTE, place.file, place.line, message, hint)
