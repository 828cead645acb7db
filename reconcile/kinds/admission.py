"""Admission: what an API server with our CRDs and our webhook does to an object, for stores that are neither.

Defaults, unknown keys, schema, rules, checks, in that order; the object that comes out is the one to store. Metadata's values are the
store's to check; here only its unknown keys are.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from foundation.globs import glob_problem
from reconcile.errors import FieldError, Invalid
from reconcile.kinds.catalog import CATALOG
from reconcile.kinds.job_checks import (
    duration_problems,
    entry_problems,
    glob_problems,
    path_problems,
    schedule_problems,
    threshold_problems,
    unsafe_path,
)
from reconcile.kinds.not_supported import unsupported_fields
from reconcile.kinds.problems import Problem
from reconcile.kinds.provider_checks import provider_problems
from reconcile.kinds.rule import matches
from reconcile.kinds.rules import rules_of
from reconcile.kinds.schema import job_spec_schema, schema_of
from reconcile.kinds.structural import UnknownKey, defaulted, nearest, pruned, unknown_keys
from reconcile.kinds.validation import schema_errors

_METADATA_KEYS: Final = (
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)
_PARTS: Final = ("spec", "status")


@dataclass(frozen=True, slots=True)
class Admitted:
    """An object as it may be stored, and what its writer should be told."""

    object: dict[str, Any]
    warnings: list[str] = field(default_factory=list)


def admit(
    kind: str, new: dict[str, Any], old: dict[str, Any] | None, *, unknown: Literal["refuse", "prune"] = "refuse", in_cluster: bool = False
) -> Admitted:
    """Default and check an object before it is stored. Kinds that are not ours pass unchanged.

    `old` is what is stored, None on create. A spec or status equal to the stored one is not checked again, so that an object which an
    older program took can still lose its finalizers. Unknown keys are errors, or with `prune` are dropped with a warning each.
    `in_cluster`: workers are pods, so what only pods can have is not warned of.

    Raises:
        Invalid: with every field that is wrong. Rules are only looked at when the schema holds, checks only when the rules hold.
    """
    if kind not in CATALOG:
        return Admitted(new)
    schema = schema_of(kind)
    name = _name(new)
    strangers = [*_unknown_metadata(new), *_changed_unknown(schema, new, old)]
    if strangers and unknown == "refuse":
        raise Invalid([FieldError(key.path, _unknown_message(key)) for key in strangers], kind=kind, name=name)
    obj = _completed(schema, new, old)
    changed = [part for part in _PARTS if old is None or obj.get(part) != old.get(part)]
    errors = [error for error in schema_errors(schema, obj) if _part(error.path) not in _PARTS or _part(error.path) in changed]
    errors = errors or [*_rule_errors(kind, obj, old, changed)]
    if not errors and "spec" in changed:
        errors = [FieldError(problem.path, f"Invalid value: {problem.message}") for problem in _problems(kind, obj)]
    if errors:
        raise Invalid(errors, kind=kind, name=name)
    return Admitted(obj, [*(_unknown_message(key) for key in strangers), *(_warnings(kind, obj, in_cluster=in_cluster) if "spec" in changed else ())])


def admit_status(kind: str, new: dict[str, Any], old: dict[str, Any]) -> None:
    """Check a write that changes status only: unknown keys that were not there, its schema, and what is set once. Defaults are left alone.

    Raises:
        Invalid: with every field that is wrong.
    """
    if kind not in CATALOG:
        return
    schema = schema_of(kind)
    known = {key.path for key in unknown_keys(schema, {"status": old.get("status")})}
    errors = [FieldError(key.path, _unknown_message(key)) for key in unknown_keys(schema, {"status": new.get("status")}) if key.path not in known]
    errors = errors or [error for error in schema_errors(schema, new) if _part(error.path) == "status"]
    errors = errors or [*_rule_errors(kind, new, old, ["status"])]
    if errors:
        raise Invalid(errors, kind=kind, name=_name(new))


def spec_problems(job_spec: Mapping[str, Any], *, namespace: str | None = None) -> list[Problem]:
    """Say what keeps a job's spec, or a run's template, from being run: InvalidSpec, InvalidProviderEntry or JobCreationFailed.

    The same schema, rules and checks as admission, for objects that a store took without it. Paths begin with `spec.`; thresholds that
    cannot be read are not among them, since they fail a run only at its end (`threshold_problems`).
    """
    spec = defaulted(job_spec_schema(), dict(job_spec))
    root = {"properties": {"spec": job_spec_schema()}}
    problems = [Problem("InvalidSpec", key.path, _unknown_message(key)) for key in unknown_keys(root, {"spec": spec})]
    problems += [Problem("InvalidSpec", e.path, e.message) for e in schema_errors(root, {"spec": spec})]
    problems = problems or [Problem("InvalidSpec", e.path, e.message) for e in _rule_errors("ArenaJob", {"spec": spec}, None, ["spec"])]
    return problems or _job_problems(spec, namespace)


def project_problems(spec: Mapping[str, Any]) -> list[Problem]:
    """Say what is wrong with a project's spec beyond its schema: seed paths and globs, each InvalidSpec."""
    items = (((spec.get("hosted") or {}).get("seed") or {}).get("configMap") or {}).get("items") or ()
    globs = (spec.get("deploy") or {}).get("allowedRefs") or ()
    return [
        *(
            Problem("InvalidSpec", f"spec.hosted.seed.configMap.items[{place}].path", f"path {item['path']!r} {cause}")
            for place, item in enumerate(items)
            if (cause := unsafe_path(item["path"]))
        ),
        *(
            Problem("InvalidSpec", f"spec.deploy.allowedRefs[{place}]", f"glob {pattern!r} cannot be read: {cause}")
            for place, pattern in enumerate(globs)
            if (cause := glob_problem(pattern))
        ),
    ]


def _job_problems(spec: Mapping[str, Any], namespace: str | None) -> list[Problem]:
    return [*path_problems(spec), *glob_problems(spec), *duration_problems(spec), *entry_problems(spec, namespace)]


def _problems(kind: str, obj: Mapping[str, Any]) -> list[Problem]:
    """What a validating webhook refuses."""
    spec, namespace = obj["spec"], _metadata(obj).get("namespace")
    if kind == "ArenaProject":
        return project_problems(spec)
    if kind == "Provider":
        return provider_problems(spec)
    if kind == "ArenaJob":
        return [*_job_problems(spec, namespace), *threshold_problems(spec)]
    if kind == "ArenaRun":
        problems = [*_job_problems(spec["template"], namespace), *threshold_problems(spec["template"])]
        return [problem._replace(path=problem.path.replace("spec.", "spec.template.", 1)) for problem in problems]
    return []


def _warnings(kind: str, obj: Mapping[str, Any], *, in_cluster: bool) -> Iterator[str]:
    """What a writer should know of an object that is taken: it will not do what it says."""
    schedule = [] if kind != "ArenaJob" else schedule_problems(obj["spec"])
    for problem in schedule:
        yield f"{problem}; no run starts ({problem.reason})"
    unsupported = [
        path for path in unsupported_fields(kind, obj["spec"], in_cluster=in_cluster) if not (schedule and path.startswith("spec.schedule"))
    ]
    for path in unsupported:
        yield f"{path} is not supported yet (NotSupported)"


def _rule_errors(kind: str, new: Mapping[str, Any], old: Mapping[str, Any] | None, changed: list[str]) -> Iterator[FieldError]:
    for rule in rules_of(kind):
        if rule.scope and _part(rule.scope) not in changed:
            continue
        for path, value, before in matches(rule.scope, new, old):
            if rule.is_transition and before is None:
                continue
            if not rule.holds(value, before):
                full = f"{path}.{rule.field}" if rule.field else path
                yield FieldError(full, f'Invalid value: "{_type_name(value)}": {rule.message}')


def _type_name(value: object) -> str:
    return "object" if isinstance(value, Mapping) else "array" if isinstance(value, list) else "string"


def _metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _name(obj: Mapping[str, Any]) -> str:
    return str(_metadata(obj).get("name", ""))


def _unknown_metadata(obj: Mapping[str, Any]) -> Iterator[UnknownKey]:
    for key in _metadata(obj):
        if key not in _METADATA_KEYS:
            yield UnknownKey(f"metadata.{key}", nearest(key, list(_METADATA_KEYS)))


def _changed_unknown(schema: Mapping[str, Any], new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[UnknownKey]:
    for key in unknown_keys({**schema, "properties": {**schema["properties"], "metadata": {"x-kubernetes-preserve-unknown-fields": True}}}, new):
        part = _part(key.path)
        if old is None or part not in _PARTS or new.get(part) != old.get(part):
            yield key


def _completed(schema: Mapping[str, Any], new: Mapping[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy without unknown keys and with defaults; a part equal to the stored one stays as it is."""
    obj: dict[str, Any] = defaulted(schema, pruned(schema, new))
    obj |= {part: deepcopy(new[part]) for part in _PARTS if part in new and old is not None and new[part] == old.get(part)}
    metadata = new.get("metadata")
    known = {key: deepcopy(value) for key, value in _metadata(new).items() if key in _METADATA_KEYS}
    return {**obj, "metadata": known if metadata is None or isinstance(metadata, Mapping) else metadata}


def _unknown_message(key: UnknownKey) -> str:
    return f'unknown field "{key.path}"' + (f'; did you mean "{key.suggestion}"?' if key.suggestion else "")


def _part(path: str) -> str:
    return path.split(".", 1)[0].split("[", 1)[0]
