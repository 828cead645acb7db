"""Repositories forged object by object, so that a test can hold what no git client would push."""

import hashlib
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gitops.content import ContentVolume, ProjectKey

SOURCE_ROOT = Path(__file__).parents[3]
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "LC_ALL": "C"}
AUTHOR = "A <a@example.com> 1700000000 +0000"


@dataclass(frozen=True)
class Node:
    """One entry of a forged tree: a mode and what it holds (bytes, or the id of anything)."""

    mode: str
    content: bytes | str


Files = Mapping[str, bytes | Node]


@dataclass
class Forge:
    """A bare repository that is written object by object, without git. An ObjectSource over the same objects."""

    path: Path
    object_format: str = "sha1"
    objects: dict[str, tuple[str, bytes]] = field(default_factory=dict)

    def init(self) -> "Forge":
        """Make the empty repository with git itself."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "--bare", "--initial-branch=main", f"--object-format={self.object_format}", str(self.path))
        return self

    def git(self, *arguments: str) -> str:
        """Run the real git here and return its stdout, stripped."""
        directory = self.path if self.path.is_dir() else self.path.parent
        done = subprocess.run(["git", *arguments], cwd=directory, env=ENVIRONMENT, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def put(self, kind: str, data: bytes) -> str:
        """Write a loose object and return its id."""
        whole = f"{kind} {len(data)}\0".encode() + data
        object_id = hashlib.new(self.object_format, whole).hexdigest()
        self.objects[object_id] = (kind, data)
        path = self.path / "objects" / object_id[:2] / object_id[2:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zlib.compress(whole))
        return object_id

    def tree(self, *entries: tuple[str, bytes, str], ordered: bool = True) -> str:
        """Write a tree of (mode, name, id) as it stands, sorted as git sorts unless `ordered` is off."""
        if ordered:
            entries = tuple(sorted(entries, key=lambda entry: entry[1] + b"/" * (int(entry[0], 8) == 0o040000)))
        return self.put("tree", b"".join(f"{mode} ".encode() + name + b"\0" + bytes.fromhex(i) for mode, name, i in entries))

    def files(self, files: Files) -> str:
        """Write nested trees of path to content and return the root's id."""
        here: dict[str, bytes | Node] = {}
        below: dict[str, dict[str, bytes | Node]] = {}
        for path, content in files.items():
            name, slash, rest = path.partition("/")
            if slash:
                below.setdefault(name, {})[rest] = content
            else:
                here[name] = content
        entries = [("40000", name.encode(), self.files(inner)) for name, inner in below.items()]
        for name, content in here.items():
            node = content if isinstance(content, Node) else Node("100644", content)
            entries.append((node.mode, name.encode(), node.content if isinstance(node.content, str) else self.put("blob", node.content)))
        return self.tree(*entries)

    def commit(self, tree: str | Files, *parents: str, ref: str = "refs/heads/main", message: str = "m") -> str:
        """Write a commit of a tree (an id, or files) and let `ref` name it; an empty `ref` leaves it unreachable."""
        root = tree if isinstance(tree, str) else self.files(tree)
        lines = [f"tree {root}", *(f"parent {parent}" for parent in parents), f"author {AUTHOR}", f"committer {AUTHOR}", "", message]
        commit = self.put("commit", "\n".join(lines).encode())
        if ref:
            self.ref(ref, commit)
        return commit

    def tag(self, name: str, target: str, kind: str = "commit") -> str:
        """Write an annotated tag object and its ref; return the tag object's id."""
        tag = self.put("tag", f"object {target}\ntype {kind}\ntag {name}\ntagger {AUTHOR}\n\nt\n".encode())
        self.ref(f"refs/tags/{name}", tag)
        return tag

    def ref(self, name: str, target: str) -> None:
        """Write a loose ref."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{target}\n")

    def contents(self, object_ids: Sequence[str], *, limit_bytes: int) -> Iterator[bytes | None]:
        """Yield the objects' contents, as `ObjectSource` says."""
        for object_id in object_ids:
            data = self.objects[object_id][1]
            yield data if len(data) <= limit_bytes else None

    @staticmethod
    def link(target: str | bytes) -> Node:
        """Return a symlink."""
        return Node("120000", target.encode() if isinstance(target, str) else target)

    @staticmethod
    def executable(content: bytes) -> Node:
        """Return an executable file."""
        return Node("100755", content)

    def submodule(self) -> Node:
        """Return a submodule at a commit that nobody has."""
        return Node("160000", "1" * (64 if self.object_format == "sha256" else 40))


@pytest.fixture
def volume(tmp_path: Path) -> ContentVolume:
    """An empty content volume."""
    return ContentVolume(tmp_path / "volume")


@pytest.fixture
def project() -> ProjectKey:
    """The project that `forge` is the repository of."""
    return ProjectKey("default", "support")


@pytest.fixture(params=["sha1", "sha256"])
def both_formats(request: pytest.FixtureRequest) -> str:
    """Ask for this fixture to run a test in both object formats."""
    return str(request.param)


@pytest.fixture
def forge(request: pytest.FixtureRequest, volume: ContentVolume, project: ProjectKey) -> Forge:
    """The project's empty hosted repository; SHA-1 unless the test asks for `both_formats`."""
    object_format = request.getfixturevalue("both_formats") if "both_formats" in request.fixturenames else "sha1"
    return Forge(volume.repository(project), object_format).init()


@pytest.fixture
def run_python() -> Callable[..., "subprocess.Popen[str]"]:
    """Start a Python process with this source tree; arguments go to its `sys.argv[1:]`, `before` in front of the command."""

    def start(script: str, *arguments: str, before: Sequence[str] = ()) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*before, sys.executable, "-c", script, *arguments],
            env={**ENVIRONMENT, "PYTHONPATH": str(SOURCE_ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture
def forge_at() -> Callable[[Path], Forge]:
    """Make an empty repository of the project `support` on the content volume at a path."""
    return lambda root: Forge(ContentVolume(root).repository(ProjectKey("default", "support"))).init()


@pytest.fixture(scope="session")
def forge_in() -> Callable[[Path, str], Forge]:
    """Make an empty repository `support.git` of an object format in a directory."""
    return lambda directory, object_format: Forge(directory / "support.git", object_format).init()
