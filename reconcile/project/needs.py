"""Which runs need a project's source, and which commit's files."""

from collections.abc import Mapping
from typing import Any

from gitops.content import ProjectKey, is_full_commit
from reconcile.kinds.names import TERMINAL_PHASES


def needs_source(run: Mapping[str, Any], project: ProjectKey) -> bool:
    """Say whether a run has pinned a commit of the project and has not ended."""
    status = run.get("status") or {}
    of_project = run["spec"]["template"]["sourceRef"]["name"] == project.name
    return of_project and "source" in status and status.get("phase") not in TERMINAL_PHASES


def named_commit(run: Mapping[str, Any], project: ProjectKey) -> str:
    """Return the commit whose files a run that has not ended needs: the pinned one, or the SHA that it will pin; "" when it names none yet."""
    if needs_source(run, project):
        return str(run["status"]["source"]["commit"])
    template, phase = run["spec"]["template"], (run.get("status") or {}).get("phase")
    waits = template["sourceRef"]["name"] == project.name and phase not in TERMINAL_PHASES
    return ref if waits and is_full_commit(ref := template.get("ref") or "") else ""
