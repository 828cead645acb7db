"""What the stored object of a project says of its repository, for those who only read it: runs, jobs, git clients.

The project controller writes `status.repositoryURL` before it lets anything of a remote into the mirror, and removes the mirror of another remote
first. So a mirror whose URL is not the spec's answers for nobody.
"""

from collections.abc import Mapping
from typing import Any

BRANCHES = "refs/heads/"


def remote_url(project: Mapping[str, Any]) -> str:
    """Return the URL that an external project mirrors, "" for a hosted one."""
    return str((project["spec"].get("external") or {}).get("url", ""))


def answers(project: Mapping[str, Any]) -> bool:
    """Say whether the repository on the content volume is the one that the spec names: never that of another remote, or of another object of its name."""
    url = remote_url(project)
    return not url or (project.get("status") or {}).get("repositoryURL") == url


def default_branch(project: Mapping[str, Any]) -> str:
    """Return the short name of the branch that stands for the project; "" while nobody knows it."""
    return str((project.get("status") or {}).get("defaultBranch") or "")
