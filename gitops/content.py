"""The content volume: where everything lies, made safe in one place.

Owns the layout `<root>/<workspace>/<namespace>/arena/...` and the rule which names may become part of a path. Touches no file and must not know
what lies in one.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gitops.errors import UnsafeName

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_LABEL_PATTERN = re.compile(_LABEL)
_PART = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_NAME_PATTERN = re.compile(rf"{_PART}(?:\.{_PART})*")
_UID_PATTERN = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z-]{0,62}[0-9A-Za-z])?")
_COMMIT_PATTERN = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_NAME_CHARACTERS = 253
_FILE_NAME_BYTES = 255


@dataclass(frozen=True, slots=True)
class ProjectKey:
    """Which project: its namespace and its name, as Kubernetes spells them."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class ContentVolume:
    """Every path on the content volume. Each method checks the names it is given and raises UnsafeName for one that is no Kubernetes name."""

    def __init__(self, root: Path, workspace_of: Callable[[str], str] = lambda namespace: namespace) -> None:
        self.root = root
        self._workspace_of = workspace_of

    @property
    def replicas(self) -> Path:
        """Return the directory in which processes that share the volume show that they live; no workspace can have this name."""
        return self.root / ".replicas"

    def namespace(self, namespace: str) -> Path:
        """Return the subtree of a namespace: `<root>/<workspace>/<namespace>`."""
        return self.root / _label("workspace", self._workspace_of(_label("namespace", namespace))) / namespace

    def repositories(self, namespace: str) -> Path:
        """Return the directory that holds the bare repositories of a namespace."""
        return self.namespace(namespace) / "arena" / "repos"

    def repository(self, project: ProjectKey) -> Path:
        """Return the project's bare repository, hosted or mirrored."""
        return self.repositories(project.namespace) / _component(f"{_name('project', project.name)}.git")

    def retained(self, project: ProjectKey, uid: str) -> Path:
        """Return where the repository of a deleted project waits to be adopted; `uid` is the deleted object's."""
        name = f"{_name('project', project.name)}-{_uid(uid)}.git"
        return self.repositories(project.namespace) / ".retained" / _component(name)

    def sources(self, project: ProjectKey) -> Path:
        """Return the directory of all that is exported from the project."""
        return self.namespace(project.namespace) / "arena" / "sources" / _name("project", project.name)

    def versions(self, project: ProjectKey) -> Path:
        """Return the directory of the project's snapshots, each named by its full commit id."""
        return self.sources(project) / ".arena" / "versions"

    def snapshot(self, project: ProjectKey, commit: str) -> Path:
        """Return the directory of one snapshot; `commit` is 40 or 64 lower-case hexadecimal digits."""
        return self.versions(project) / _commit(commit)

    def head_file(self, project: ProjectKey) -> Path:
        """Return the file that holds the commit of the newest snapshot of the default branch."""
        return self.sources(project) / ".arena" / "HEAD"

    def run(self, namespace: str, run: str) -> Path:
        """Return the output directory of a run."""
        return self.namespace(namespace) / "arena" / "runs" / _name("run", run)

    def history(self, namespace: str, job: str) -> Path:
        """Return the directory of the summaries that pruned runs of a job leave behind."""
        return self.namespace(namespace) / "arena" / "history" / _name("job", job)

    def relative(self, namespace: str, path: Path) -> str:
        """Return `path` relative to the namespace's subtree with forward slashes, as `status.source.contentPath` shows it.

        Raises:
            UnsafeName: `path` lies outside that subtree.
        """
        try:
            inner = path.relative_to(self.namespace(namespace))
        except ValueError as error:
            raise UnsafeName(f"cannot use path '{path}': it lies outside namespace '{namespace}'") from error
        if ".." in inner.parts:
            raise UnsafeName(f"cannot use path '{path}': it climbs by '..'")
        return inner.as_posix()


def is_full_commit(text: str) -> bool:
    """Say whether `text` is a full object id as git prints it: 40 (SHA-1) or 64 (SHA-256) lower-case hexadecimal digits."""
    return _COMMIT_PATTERN.fullmatch(text) is not None


def _label(what: str, text: str) -> str:
    if _LABEL_PATTERN.fullmatch(text) is None:
        raise _unsafe(what, text, "it is not a DNS label (a-z, 0-9 and '-', at most 63 characters)")
    return text


def _name(what: str, text: str) -> str:
    if len(text) > _NAME_CHARACTERS or _NAME_PATTERN.fullmatch(text) is None:
        raise _unsafe(what, text, f"it is not a Kubernetes name (a-z, 0-9, '-' and '.', at most {_NAME_CHARACTERS} characters)")
    return text


def _uid(text: str) -> str:
    if _UID_PATTERN.fullmatch(text) is None:
        raise _unsafe("uid", text, "it is not an object's uid")
    return text


def _commit(text: str) -> str:
    if not is_full_commit(text):
        raise _unsafe("commit", text, "it is not a full commit id (40 or 64 lower-case hexadecimal digits)")
    return text


def _component(text: str) -> str:
    if len(text) > _FILE_NAME_BYTES:
        raise _unsafe("file name", text, f"it is longer than {_FILE_NAME_BYTES} bytes")
    return text


def _unsafe(what: str, text: str, cause: str) -> UnsafeName:
    shown = text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004 - a name in a message, not a rule
    return UnsafeName(f"cannot use {what} {shown!r}: {cause}")
