"""Judges that checks ask for: that they are there, that it is clear which one is meant, and that their prompts can be filled in.

Owns the rules between a judge's check and the rest of the bundle. Must not ask anybody.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from engine.bundle.evaluations import Evaluation
from engine.bundle.model import Bundle, Location, Scenario
from engine.bundle.problems import Problems, did_you_mean, shown
from engine.errors import BundleInvalid

Asking = tuple[Location, str, Mapping[str, Any]]
"""Where a check, a guardrail or a session eval is written, its type, and its parameters."""


def asking_of(bundle: Bundle, subjects: Iterable[Scenario | Evaluation]) -> Iterator[Asking]:
    """Yield every check of scenarios and evals, and every enabled guardrail and session eval of the bundle."""
    for subject in subjects:
        yield from ((check.location, check.check, check.params) for check in subject.checks)
    for prompt in bundle.prompts.values():
        yield from ((guard.location, guard.type, guard.params) for guard in prompt.validators if guard.enabled)
    evals = (*bundle.arena.pack_evals, *(found for prompt in bundle.prompts.values() for found in prompt.evals))
    yield from ((found.location, found.check, found.params) for found in evals if found.enabled)


def check_judges(bundle: Bundle, problems: Problems) -> None:
    """Add a problem for every check that has no judge, does not say which, or whose judge's prompt cannot be filled in."""
    from engine.checks import judge_of  # noqa: PLC0415 - only bundles that have checks need them

    seen: set[tuple[Location, str]] = set()
    for place, kind, params in asking_of(bundle, (*bundle.scenarios.values(), *bundle.evals.values())):
        need = judge_of(kind)
        if need and (place, kind) not in seen:
            seen.add((place, kind))
            if bundle.arena.judges:
                _check_named(bundle, place, kind, params, problems)
                _check_prompt(bundle, place, kind, params, problems)
            elif need == "needed":
                problems.error(place, f"check '{kind}' needs a judge, and the arena has none", "name one in the arena's `judges`: {name, provider}")


def judges_needed(bundle: Bundle, kind: str, params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the judges that decide a check: those it names, else the arena's (more than one is then a problem of the bundle)."""
    from engine.checks import judge_of  # noqa: PLC0415 - as below

    if not judge_of(kind):
        return ()
    given = params.get("judge", params.get("judges", ()))
    names = (given,) if isinstance(given, str) else tuple(name for name in given if isinstance(name, str)) if isinstance(given, list | tuple) else ()
    return names or tuple(judge.name for judge in bundle.arena.judges)


def _check_named(bundle: Bundle, place: Location, kind: str, params: Mapping[str, Any], problems: Problems) -> None:
    known = [judge.name for judge in bundle.arena.judges]
    named = "judge" in params or "judges" in params
    names = judges_needed(bundle, kind, params)
    for name in names:
        if name not in known:
            problems.error(place, f"unknown judge '{shown(name)}' of check '{kind}'", did_you_mean(name, known, otherwise="judges are"))
    if not named and len(names) > 1:
        problems.error(
            place, f"check '{kind}' does not say which judge decides", f"add judge to its params: one of {', '.join(known)}, or a list of them"
        )


def _check_prompt(bundle: Bundle, place: Location, kind: str, params: Mapping[str, Any], problems: Problems) -> None:
    from engine.checks import ALIASES  # noqa: PLC0415 - as above
    from engine.judging.briefs import EXHIBITS  # noqa: PLC0415 - only bundles with judges need them
    from engine.judging.prompts import find_prompt, judge_task, prompt_name  # noqa: PLC0415
    from engine.judging.rubrics import RUBRICS  # noqa: PLC0415

    rubric = RUBRICS[ALIASES.get(kind, kind)]
    given = {key: str(params.get(key, "")) for key in ("prompt", "system_prompt", "criteria", "rubric")}
    name = prompt_name(bundle, ALIASES.get(kind, kind), given["prompt"], given["system_prompt"])
    if not name:
        if not (rubric.criteria or given["system_prompt"] or given["criteria"] or given["rubric"]):
            problems.error(
                place, f"check '{kind}' does not say what to judge by", "add criteria, a rubric, a prompt or a system_prompt to its params"
            )
        return
    prompt = find_prompt(bundle, name)
    if prompt is None:
        whose = f"of check '{kind}'" if given["prompt"] else "of judge_defaults"
        hint = did_you_mean(name, [prompt.id for prompt in bundle.prompts.values()], otherwise="prompts are")
        problems.error(place, f"unknown prompt '{shown(name)}' {whose}", hint)
        return
    try:
        judge_task(bundle, prompt, given["criteria"] or rubric.criteria, given["rubric"], dict.fromkeys(EXHIBITS, "-"))
    except BundleInvalid as error:
        problems.error(place, error.message, error.hint)
