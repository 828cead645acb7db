"""Printer columns of each kind: what `kubectl get` and `arena get` show. Knows no model."""

from dataclasses import dataclass
from typing import Final, Literal

READY_STATUS: Final = '.status.conditions[?(@.type=="Ready")].status'
READY_REASON: Final = '.status.conditions[?(@.type=="Ready")].reason'
READY_MESSAGE: Final = '.status.conditions[?(@.type=="Ready")].message'


@dataclass(frozen=True, slots=True)
class Column:
    """One column: a single JSON path. `priority` 0 is always shown, 1 with `-o wide`."""

    name: str
    json_path: str
    description: str
    type: Literal["string", "integer", "date", "boolean"] = "string"
    priority: int = 0


def _age() -> Column:
    return Column("Age", ".metadata.creationTimestamp", "Time since the object was created.", "date")


PRINTER_COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "ArenaProject": (
        Column("Kind", ".status.display.kind", "hosted or external."),
        Column("Head", ".status.display.head", "First 12 characters of the head's commit."),
        Column("Ready", READY_STATUS, "Whether the head is exported."),
        Column("Status", READY_MESSAGE, "Message of the Ready condition."),
        _age(),
    ),
    "ArenaJob": (
        Column("Source", ".spec.sourceRef.name", "The project."),
        Column("Type", ".spec.type", "Kind of work."),
        Column("Active", ".status.activeCount", "Runs that have not finished.", "integer"),
        Column("Last Run", ".status.lastRunRef.name", "The run created last."),
        # a string: kubectl prints a date in the future as <invalid>
        Column("Next", ".status.nextScheduleTime", "Next tick of the schedule."),
        _age(),
        Column("Ref", ".spec.ref", "The ref that runs execute.", priority=1),
        Column("Schedule", ".spec.schedule.cron", "Cron expression.", priority=1),
        Column("Suspend", ".spec.suspend", "Whether new runs are stopped.", "boolean", 1),
        Column("Ready", READY_MESSAGE, "Message of the Ready condition.", priority=1),
    ),
    "ArenaRun": (
        Column("Job", ".spec.jobRef.name", "The job."),
        Column("Phase", ".status.phase", "Where the run stands."),
        Column("Commit", ".status.display.commit", "First 12 characters of the commit."),
        Column("Progress", ".status.display.progress", "Items with a result, of all items."),
        Column("Pass Rate", ".status.result.summary.passRate", "Percentage of items that passed."),
        Column("Cost", ".status.display.cost", "What the run cost so far, or the least that it did."),
        _age(),
        Column("Ref", ".status.source.ref", "The ref that the run asked for.", priority=1),
        Column("Trigger", ".spec.trigger", "What started the run.", priority=1),
        Column("Workers", ".status.workers", "Workers of the run.", "integer", 1),
        Column("Reason", READY_REASON, "Reason of the Ready condition.", priority=1),
    ),
    "Provider": (
        Column("Type", ".spec.type", "The vendor's protocol."),
        Column("Model", ".spec.model", "The model."),
        Column("Phase", ".status.phase", "Whether the provider can be used."),
        _age(),
    ),
    "AgentRuntime": (
        Column("Phase", ".status.phase", "Whether the agent runs."),
        Column("Endpoint", ".status.serviceEndpoint", "Where the agent listens."),
        _age(),
    ),
    "ToolRegistry": (
        Column("Tools", ".status.discoveredToolsCount", "Number of tools.", "integer"),
        Column("Phase", ".status.phase", "Whether the tools can be used."),
        _age(),
    ),
    "Workspace": (
        Column("Namespace", ".spec.namespace.name", "The workspace's namespace."),
        Column("Phase", ".status.phase", "Whether the workspace can be used."),
        _age(),
    ),
}
"""By kind, in the order they are shown; the name comes before them."""
