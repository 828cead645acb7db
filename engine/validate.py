"""Validates a bundle on disk without running it: what is wrong, what has no effect, what will not run yet.

Owns the order of these steps. Must not know how problems are shown.
"""

from pathlib import Path

from engine.bundle.advice import advice_of
from engine.bundle.evaluations import Evaluation
from engine.bundle.loader import DEFAULT_ARENA_FILE, read_bundle
from engine.bundle.model import Bundle
from engine.bundle.problems import Problem, Severity
from engine.bundle.recording_reader import load_recording
from engine.bundle.recordings import RECORDING, recordings_of
from engine.bundle.supported import code_of, needs_of
from engine.errors import ArenaFileNotFound, BundleInvalid, EngineError
from engine.permissions import ALLOWING_CODE, NO_PERMISSIONS
from engine.plan import PlanRequest, make_plan
from engine.providers.addresses import refused_addresses

__all__ = ["Problem", "Severity", "validate_bundle"]


def validate_bundle(root: Path, arena_file: str = DEFAULT_ARENA_FILE, *, with_code: bool = False) -> list[Problem]:
    """Return everything that can be said of a bundle, by file and line; [] for a flawless one. `with_code`: its programs will be allowed to run.

    The bundle can run when no problem is an error. Notes name what the format allows and this engine does not do yet, for every scenario.
    Never raises for what the bundle holds.
    """
    try:
        bundle, problems = read_bundle(root, arena_file)
    except ArenaFileNotFound as error:
        return [Problem(Severity.ERROR, arena_file, 0, error.message, error.hint)]
    found = problems.all
    if bundle is not None and not problems.has_errors:
        found += _plan_problems(bundle, with_code=with_code) + _recording_problems(bundle)
    return sorted(found, key=lambda problem: (problem.file, problem.line))


def _plan_problems(bundle: Bundle, *, with_code: bool) -> list[Problem]:
    try:
        plan = make_plan(bundle, PlanRequest(bundle.arena_file))
    except EngineError as error:
        severity = Severity.NOTE if bundle.evals and not bundle.scenarios else Severity.ERROR
        return [_from_message(bundle, severity, error.message, error.hint)]
    warnings = [_from_message(bundle, Severity.WARNING, warning) for warning in plan.warnings]
    unbuilt, programs = dict.fromkeys(needs_of(bundle, plan)), {} if with_code else dict.fromkeys(code_of(bundle, plan))
    notes = [Problem(Severity.NOTE, place.file, place.line, what) for place, what in unbuilt]
    notes += [Problem(Severity.NOTE, place.file, place.line, what, ALLOWING_CODE) for place, what in programs]
    refused = (_refused_address(bundle, *found) for found in refused_addresses({**plan.serving, **plan.providers}, NO_PERMISSIONS.addresses))
    return [*warnings, *refused, *notes, *dict.fromkeys(advice_of(bundle, plan))]


def _refused_address(bundle: Bundle, provider: str, sentence: str, remedy: str) -> Problem:
    place = bundle.providers[provider].location
    return Problem(Severity.WARNING, place.file, place.line, sentence, remedy)


def _recording_problems(bundle: Bundle) -> list[Problem]:
    """Return what the evals would meet when they run; only warnings, since a recording may still be made before."""
    found: list[Problem] = []
    for evaluation in bundle.evals.values():
        try:
            chosen = recordings_of(bundle, evaluation)
        except BundleInvalid as error:
            if bundle.scenarios:  # else evals were planned, and that said it
                found.append(_from_message(bundle, Severity.WARNING, error.message, error.hint))
            continue
        files = [dict(one.values).get(RECORDING, evaluation.recording) for one in chosen]
        found += [problem for file in files if (problem := _recording_problem(bundle, evaluation, file))]
    return found


def _recording_problem(bundle: Bundle, evaluation: Evaluation, file: str) -> Problem | None:
    try:
        load_recording(bundle.root, file, evaluation.recording_type)
    except BundleInvalid as error:
        place = evaluation.location
        return Problem(Severity.WARNING, place.file, place.line, f"cannot run eval '{evaluation.id}': {error.message}", error.hint)
    return None


def _from_message(bundle: Bundle, severity: Severity, message: str, hint: str = "") -> Problem:
    file, _, rest = message.partition(":")
    line, _, text = rest.partition(": ")
    if line.isdecimal() and text:
        return Problem(severity, file, int(line), text, hint)
    return Problem(severity, bundle.arena_file, 0, message, hint)
