"""Repositories of deleted projects, kept until a project of the name adopts them.

Reads `arena/repos/.retained` and moves nothing: that is `Repositories.retain` and `Repositories.adopt`.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gitops.content import ContentVolume, ProjectKey

_NAME = re.compile(r"(?P<project>.+)-(?P<uid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.git")
_SHA256 = re.compile(r"^\s*objectformat\s*=\s*sha256\s*$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Retained:
    """A repository that waits to be adopted. `uid` is the deleted project's; `bytes` is what its files hold; `used` when it was last written to."""

    project: ProjectKey
    uid: str
    path: Path
    bytes: int
    used: datetime


def list_retained(volume: ContentVolume, namespace: str, name: str = "") -> list[Retained]:
    """Return the retained repositories of a namespace, or of one project name in it, the last used first. Blocking.

    Raises:
        OSError: the volume cannot be read.
    """
    found = []
    for path in (volume.repositories(namespace) / ".retained").glob("*.git"):
        parts = _NAME.fullmatch(path.name)
        if parts is not None and name in ("", parts["project"]):
            found.append(_retained(ProjectKey(namespace, parts["project"]), parts["uid"], path))
    return sorted(found, key=lambda retained: (retained.used, retained.uid), reverse=True)


def object_format(repository: Path) -> str:
    """Return `sha1` or `sha256`, as a repository's own configuration says."""
    return "sha256" if _SHA256.search((repository / "config").read_text(encoding="utf-8", errors="replace")) else "sha1"


def _retained(project: ProjectKey, uid: str, path: Path) -> Retained:
    facts = [entry.lstat() for entry in path.rglob("*")]
    used = max((fact.st_mtime for fact in facts), default=path.lstat().st_mtime)
    return Retained(project, uid, path, sum(fact.st_size for fact in facts), datetime.fromtimestamp(used, UTC))
