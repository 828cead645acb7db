"""What every look shares: where the installation lies, how much to read, and its objects as the store has them now."""

from dataclasses import dataclass
from pathlib import Path

from arena.local.state import StateDirectory
from foundation.clock import Clock
from gitops.content import ContentVolume, ProjectKey
from reconcile.cluster.port import ARENA_PROJECT, Object, ResourceKind
from reconcile.cluster.sqlite_reading import StoreReading


@dataclass(frozen=True, slots=True)
class Survey:
    """One examination. What takes long is bounded, but for the snapshots or the repositories' objects that are to be read in full.

    `redis_url` is the queue server that `arena up` was given, if any.
    """

    state: StateDirectory
    clock: Clock
    redis_url: str = ""
    verify_snapshots: bool = False
    verify_objects: bool = False

    @property
    def volume(self) -> ContentVolume:
        """The content volume."""
        return ContentVolume(self.state.content)

    @property
    def installation(self) -> str:
        """The installation's id, "" before its first start."""
        path = self.state.root / "installation"
        return path.read_text(encoding="ascii").strip() if path.is_file() else ""

    def objects(self, kind: ResourceKind) -> list[Object]:
        """Return the objects of a kind, read afresh: who looks for orphans lists what is left first, so that nothing new is taken for one."""
        with StoreReading(self.state.database) as store:
            return store.objects(kind)

    def uids(self, kind: ResourceKind) -> set[str]:
        """Return the uids of the objects of a kind, read afresh."""
        return {str(obj["metadata"]["uid"]) for obj in self.objects(kind)}

    def projects(self) -> dict[ProjectKey, Object]:
        """Return the projects; each has a repository here, hosted or a mirror."""
        return {ProjectKey(obj["metadata"]["namespace"], obj["metadata"]["name"]): obj for obj in self.objects(ARENA_PROJECT)}


def size_of(path: Path) -> int:
    """Return the bytes of all files below a path; what goes meanwhile counts nothing."""
    total = 0
    for entry in path.rglob("*"):
        try:
            total += entry.lstat().st_size
        except FileNotFoundError:
            continue
    return total


def mebibytes(size: int) -> str:
    """Return bytes as `1.5 MiB`."""
    return f"{size / 1024**2:.1f} MiB"
