"""The seven kinds: models, defaults, rules, columns, conditions and reasons, and admission for stores without an API server.

Knows no store and no controller. Importing this package costs nothing: a name is loaded when it is first used, and pydantic with it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reconcile.kinds.admission import Admitted, admit, admit_status, project_problems, spec_problems
    from reconcile.kinds.agent import AgentRuntime
    from reconcile.kinds.catalog import CATALOG, KindInfo
    from reconcile.kinds.columns import PRINTER_COLUMNS, Column
    from reconcile.kinds.conditions import Condition, ConditionType
    from reconcile.kinds.job import ArenaJob, ArenaJobSpec, ProviderEntry, provider_groups
    from reconcile.kinds.job_checks import entry_problems, schedule_problems, threshold_problems
    from reconcile.kinds.names import API_VERSION, GROUP, TERMINAL_PHASES, VERSION
    from reconcile.kinds.not_supported import unsupported_fields
    from reconcile.kinds.problems import Problem
    from reconcile.kinds.project import ArenaProject
    from reconcile.kinds.provider import Provider
    from reconcile.kinds.reasons import EventReason, JobReason, NeighbourReason, ProjectReason, QuotaReason, RunDetailReason, RunReason
    from reconcile.kinds.run import ArenaRun
    from reconcile.kinds.tools import ToolRegistry
    from reconcile.kinds.wire import ObjectMeta
    from reconcile.kinds.workspace import Workspace

_HOMES = {
    "admission": ("Admitted", "admit", "admit_status", "project_problems", "spec_problems"),
    "agent": ("AgentRuntime",),
    "catalog": ("CATALOG", "KindInfo"),
    "columns": ("PRINTER_COLUMNS", "Column"),
    "conditions": ("Condition", "ConditionType"),
    "job": ("ArenaJob", "ArenaJobSpec", "ProviderEntry", "provider_groups"),
    "job_checks": ("entry_problems", "schedule_problems", "threshold_problems"),
    "names": ("API_VERSION", "GROUP", "TERMINAL_PHASES", "VERSION"),
    "not_supported": ("unsupported_fields",),
    "problems": ("Problem",),
    "project": ("ArenaProject",),
    "provider": ("Provider",),
    "reasons": ("EventReason", "JobReason", "NeighbourReason", "ProjectReason", "QuotaReason", "RunDetailReason", "RunReason"),
    "run": ("ArenaRun",),
    "tools": ("ToolRegistry",),
    "wire": ("ObjectMeta",),
    "workspace": ("Workspace",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "API_VERSION",
    "CATALOG",
    "GROUP",
    "PRINTER_COLUMNS",
    "TERMINAL_PHASES",
    "VERSION",
    "Admitted",
    "AgentRuntime",
    "ArenaJob",
    "ArenaJobSpec",
    "ArenaProject",
    "ArenaRun",
    "Column",
    "Condition",
    "ConditionType",
    "EventReason",
    "JobReason",
    "KindInfo",
    "NeighbourReason",
    "ObjectMeta",
    "Problem",
    "ProjectReason",
    "Provider",
    "ProviderEntry",
    "QuotaReason",
    "RunDetailReason",
    "RunReason",
    "ToolRegistry",
    "Workspace",
    "admit",
    "admit_status",
    "entry_problems",
    "project_problems",
    "provider_groups",
    "schedule_problems",
    "spec_problems",
    "threshold_problems",
    "unsupported_fields",
]


def __getattr__(name: str) -> Any:
    """Load an exported name from its module when it is first used."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value
