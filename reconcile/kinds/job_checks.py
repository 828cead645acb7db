"""What admission checks of a job's spec beyond its schema: provider entries, paths, globs, lengths of time, thresholds, the schedule.

Pure functions from a spec (JSON, defaulted or not) to problems. Where no admission runs, the controllers ask the same functions.
"""

import zoneinfo
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from foundation.globs import glob_problem
from reconcile.kinds.problems import Problem
from reconcile.kinds.quantities import parse_decimal, parse_duration

INVALID_SPEC: Final = "InvalidSpec"
INVALID_ENTRY: Final = "InvalidProviderEntry"
INVALID_SCHEDULE: Final = "InvalidSchedule"
_CRON_FIELDS: Final = 5
_REFS: Final = ("providerRef", "agentRef")
_RATES: Final = frozenset({"error_rate", "pass_rate", "rate_limit_rate", "arrival_lag"})


def entry_problems(spec: Mapping[str, Any], namespace: str | None = None) -> list[Problem]:
    """Check `spec.providers`: every entry sets exactly one of providerRef and agentRef, by name.

    With a `namespace`, a providerRef into another one is JobCreationFailed.
    """
    providers = spec.get("providers")
    if providers is None:
        return []
    if not isinstance(providers, Mapping):
        return [Problem(INVALID_ENTRY, "spec.providers", "providers must be a map from group names to entries")]
    problems: list[Problem] = []
    for group, entries in providers.items():
        is_entry = isinstance(entries, Mapping) and not entries.keys().isdisjoint(_REFS)
        if is_entry or not isinstance(entries, list | Mapping):
            message = f"provider group {group} must be a list of entries, or a map from the config's provider ids to entries"
            problems.append(Problem(INVALID_ENTRY, f"spec.providers.{group}", message))
            continue
        named = entries.items() if isinstance(entries, Mapping) else enumerate(entries)
        for key, entry in named:
            label = f"{group}.{key}" if isinstance(entries, Mapping) else f"{group}[{key}]"
            problems += _one_entry(label, entry, namespace)
    return problems


def _one_entry(label: str, entry: object, namespace: str | None) -> Iterator[Problem]:
    path = f"spec.providers.{label}"
    given = [ref for ref in _REFS if isinstance(entry, Mapping) and entry.get(ref) is not None]
    if not isinstance(entry, Mapping) or len(given) != 1:
        what = "both providerRef and agentRef" if len(given) > 1 else "neither providerRef nor agentRef"
        yield Problem(INVALID_ENTRY, path, f"provider entry {label} sets {what}: set exactly one")
        return
    unknown = [key for key in entry if key not in _REFS]
    if unknown:
        yield Problem(
            INVALID_ENTRY,
            f"{path}.{unknown[0]}",
            f"provider entry {label} has the unknown key '{unknown[0]}': an entry has providerRef or agentRef only",
        )
    reference = entry[given[0]]
    fields = ("name", "namespace") if given[0] == "providerRef" else ("name",)
    if not isinstance(reference, Mapping) or not _is_name(reference.get("name")) or any(key not in fields for key in reference):
        yield Problem(
            INVALID_ENTRY,
            f"{path}.{given[0]}",
            f"provider entry {label}: {given[0]} must give a name{' and at most a namespace' if len(fields) > 1 else ' and nothing else'}",
        )
        return
    other = reference.get("namespace")
    if other and namespace is not None and other != namespace:
        message = f"provider entry {label} names a Provider in namespace '{other}': a job uses Providers of its own namespace '{namespace}'"
        yield Problem("JobCreationFailed", f"{path}.providerRef.namespace", message)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 253  # noqa: PLR2004 - Kubernetes' limit of names


def path_problems(spec: Mapping[str, Any]) -> list[Problem]:
    """Check that `arenaFile` is a path within the repository."""
    cause = unsafe_path(str(spec.get("arenaFile", "config.arena.yaml")))
    return [Problem(INVALID_SPEC, "spec.arenaFile", f"arenaFile {cause}")] if cause else []


def unsafe_path(path: str) -> str:
    """Say why `path` is no path within a repository, or return ""."""
    if any(ord(character) < 32 or ord(character) == 127 for character in path):  # noqa: PLR2004 - control characters
        return "holds a control character"
    if path.startswith(("/", "~")):
        return "is absolute: write it relative to the repository's root"
    if "\\" in path:
        return "holds a backslash: separate directories by /"
    parts = path.split("/")
    if ".." in parts:
        return "climbs out of the repository: write it without .."
    return "names no file" if not parts[-1] or parts[-1] == "." else ""


def glob_problems(spec: Mapping[str, Any]) -> list[Problem]:
    """Check that every glob of scenarios and onPush can be read."""
    places = [("scenarios", "include"), ("scenarios", "exclude"), ("onPush", "paths"), ("onPush", "branches")]
    return [
        Problem(INVALID_SPEC, f"spec.{section}.{field}[{place}]", f"glob {pattern!r} cannot be read: {cause}")
        for section, field in places
        for place, pattern in enumerate((spec.get(section) or {}).get(field) or ())
        if (cause := _unreadable_scenario_glob(pattern) if section == "scenarios" else glob_problem(pattern))
    ]


def _unreadable_scenario_glob(pattern: str) -> str:
    """Ask the engine, which owns what a scenario pattern means."""
    from engine.errors import BundleInvalid  # noqa: PLC0415 - only specs with filters pay for the import
    from engine.selection import scenario_glob  # noqa: PLC0415

    try:
        scenario_glob(pattern)
    except BundleInvalid as error:
        return error.message.rpartition("': ")[2]
    return ""


def duration_problems(spec: Mapping[str, Any]) -> list[Problem]:
    """Check the lengths of time of the spec, and that a rate has a duration."""
    load = spec.get("loadTest") or {}
    ramp = load.get("ramp") or {}
    lengths = [
        ("spec.loadTest.duration", load.get("duration"), False),
        ("spec.loadTest.ramp.up", ramp.get("up"), True),
        ("spec.loadTest.ramp.down", ramp.get("down"), True),
        ("spec.itemTimeout", spec.get("itemTimeout"), False),
        ("spec.deadline", spec.get("deadline"), False),
    ]
    problems = [
        Problem(INVALID_SPEC, path, cause)
        for path, text, may_be_zero in lengths
        if text is not None and (cause := _bad_duration(text, may_be_zero=may_be_zero))
    ]
    if load.get("rate") is not None and load.get("duration") is None:
        problems.append(Problem(INVALID_SPEC, "spec.loadTest.rate", "a rate needs a duration: set loadTest.duration"))
    return problems


def _bad_duration(text: str, *, may_be_zero: bool) -> str:
    try:
        length = parse_duration(text)
    except ValueError as error:
        return str(error)
    if length < timedelta() or (not may_be_zero and not length):
        return f"{text!r} is no length of time: it must be above zero"
    return ""


def threshold_problems(spec: Mapping[str, Any]) -> list[Problem]:
    """Check that every threshold's value can be read; at run time such a threshold fails the run with TestsFailed."""
    problems = []
    for place, threshold in enumerate((spec.get("loadTest") or {}).get("thresholds") or ()):
        metric, value = str(threshold.get("metric", "")), str(threshold.get("value", ""))
        if cause := _bad_value(metric, value):
            problems.append(Problem("TestsFailed", f"spec.loadTest.thresholds[{place}].value", f"parse error: {cause}"))
    return problems


def _bad_value(metric: str, value: str) -> str:
    if metric.startswith(("latency_", "ttft_")):
        return _bad_duration(value, may_be_zero=True)
    try:
        number = parse_decimal(value)
    except ValueError as error:
        return str(error)
    return f"{metric} is a rate from 0 to 1, not {value}: write 50 percent as 0.5" if metric in _RATES and number > 1 else ""


def schedule_problems(spec: Mapping[str, Any]) -> list[Problem]:
    """Check cron expression and time zone. No schedule, or an empty cron, is none."""
    schedule = spec.get("schedule") or {}
    cron, zone = schedule.get("cron") or "", schedule.get("timezone") or "UTC"
    if not cron:
        return []
    problems = []
    if cause := _bad_cron(cron):
        problems.append(Problem(INVALID_SCHEDULE, "spec.schedule.cron", f"cron expression {cron!r} cannot be read: {cause}"))
    if not _is_zone(zone):
        message = f"time zone {zone!r} is not known: write an IANA name such as Europe/Berlin"
        problems.append(Problem(INVALID_SCHEDULE, "spec.schedule.timezone", message))
    return problems


def _bad_cron(cron: str) -> str:
    from cronsim import CronSim, CronSimError  # noqa: PLC0415 - only specs with a schedule pay for the import

    fields = len(cron.split())
    if fields != _CRON_FIELDS:
        return f"it has {fields} fields, not five (minute, hour, day of month, month, day of week)"
    try:
        next(CronSim(cron, datetime(2000, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        return str(error).lower()
    except StopIteration:
        return "it never comes due"
    return ""


def _is_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return name not in ("localtime", "posixrules", "Factory")
