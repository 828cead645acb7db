"""The seven kinds: model, names, scope and columns, in one table."""

from dataclasses import dataclass
from typing import Final

from reconcile.kinds.agent import AgentRuntime
from reconcile.kinds.columns import PRINTER_COLUMNS, Column
from reconcile.kinds.job import ArenaJob
from reconcile.kinds.project import ArenaProject
from reconcile.kinds.provider import Provider
from reconcile.kinds.run import ArenaRun
from reconcile.kinds.tools import ToolRegistry
from reconcile.kinds.wire import Resource
from reconcile.kinds.workspace import Workspace


@dataclass(frozen=True, slots=True)
class KindInfo:
    """What a CRD says of a kind besides its schema. `is_neighbour`: another product may own the kind."""

    model: type[Resource]
    plural: str
    short_names: tuple[str, ...]
    is_namespaced: bool = True
    is_neighbour: bool = False

    @property
    def kind(self) -> str:
        """Name of the kind."""
        return self.model.KIND

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of its tables, without the name."""
        return PRINTER_COLUMNS[self.kind]


_TABLE: Final = (
    KindInfo(ArenaProject, "arenaprojects", ("ap",)),
    KindInfo(ArenaJob, "arenajobs", ("aj",)),
    KindInfo(ArenaRun, "arenaruns", ("arun",)),
    KindInfo(Provider, "providers", ("prov",), is_neighbour=True),
    KindInfo(AgentRuntime, "agentruntimes", ("agent", "ar"), is_neighbour=True),
    KindInfo(ToolRegistry, "toolregistries", ("tr",), is_neighbour=True),
    KindInfo(Workspace, "workspaces", ("ws",), is_namespaced=False, is_neighbour=True),
)

CATALOG: Final[dict[str, KindInfo]] = {info.kind: info for info in _TABLE}
"""The kinds by name, ours first."""
