"""The one table of what a spec may say and nothing carries out yet. Each later part of Arena removes its lines.

A run whose template sets one fails with NotSupported before anything starts; a project or a job with a schedule is Ready=False. A value
equal to its default, or empty, counts as not set.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reconcile.kinds.schema import schema_of
from reconcile.kinds.structural import explicit


@dataclass(frozen=True, slots=True)
class NotSupported:
    """A field that is taken and refused when it matters.

    `path` starts at `spec`; `*` is any key of a map or item of a list. `what` says which values it is about, for people:
    the field's default is never among them. `in_cluster`: a cluster carries it out, and only workers that are processes of one machine do not.
    """

    kind: str
    path: str
    what: str = ""
    in_cluster: bool = False


TABLE: Final = (
    NotSupported("ArenaProject", "spec.external.commitStatus"),
    NotSupported("ArenaProject", "spec.deploy.allowedRefs"),
    NotSupported("ArenaJob", "spec.type", "loadtest and datagen"),
    NotSupported("ArenaJob", "spec.loadTest"),
    NotSupported("ArenaJob", "spec.dataGen"),
    NotSupported("ArenaJob", "spec.schedule.cron"),
    NotSupported("ArenaJob", "spec.output"),
    NotSupported("ArenaJob", "spec.workers.podOverrides.extraVolumes", in_cluster=True),
    NotSupported("ArenaJob", "spec.workers.podOverrides.extraVolumeMounts", in_cluster=True),
    NotSupported("ArenaJob", "spec.serviceGroup"),
    NotSupported("ArenaJob", "spec.sessionRecording", "true"),
    NotSupported("ArenaJob", "spec.baseline"),
    NotSupported("ArenaJob", "spec.reuse", "Unchanged"),
    NotSupported("ArenaJob", "spec.budgetCurrency", "other than USD"),
    NotSupported("Workspace", "spec.quotas"),
    NotSupported("Workspace", "spec.services"),
)
"""What is not built, in the order it is reported."""


def unsupported_fields(kind: str, spec: Mapping[str, Any], *, in_cluster: bool = False) -> list[str]:
    """Return the paths of fields that the spec sets and nothing carries out, such as `spec.providers.default[0].agentRef`.

    `kind` is any of the seven; for ArenaRun the paths begin with `spec.template`. A Workspace's matter to the runs of its namespace.
    `in_cluster`: workers are pods, so what only pods can have is supported.
    Values that do not fit the schema are passed over: they are InvalidSpec first.
    """
    if kind == "ArenaRun":
        template = spec.get("template") or {}
        return [path.replace("spec", "spec.template", 1) for path in unsupported_fields("ArenaJob", template, in_cluster=in_cluster)]
    decided = explicit({"properties": {"spec": schema_of(kind)["properties"]["spec"]}}, {"spec": spec}) or {}
    return [path for line in TABLE if line.kind == kind and not (in_cluster and line.in_cluster) for path in _found(line.path.split("."), decided)]


def _found(steps: list[str], value: Any, path: str = "") -> Iterator[str]:
    if not steps:
        yield path
    elif isinstance(value, list):
        if steps[0] == "*":
            for place, item in enumerate(value):
                yield from _found(steps[1:], item, f"{path}[{place}]")
    elif isinstance(value, Mapping):
        for key in value if steps[0] == "*" else [steps[0]]:
            if key in value:
                yield from _found(steps[1:], value[key], f"{path}.{key}" if path else key)
