"""Which of a project's live runs need its source, and which commit's files."""

from collections.abc import Mapping
from typing import Any

from gitops.content import is_full_commit


def needs_source(run: Mapping[str, Any]) -> bool:
    """Say whether a live run has pinned a commit."""
    return "source" in (run.get("status") or {})


def named_commit(run: Mapping[str, Any]) -> str:
    """Return the commit whose files a live run needs: the pinned one, or the SHA that it will pin; "" when it names none yet."""
    if needs_source(run):
        return str(run["status"]["source"]["commit"])
    return ref if is_full_commit(ref := run["spec"]["template"].get("ref") or "") else ""
