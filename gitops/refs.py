"""Refs: which commit a person's spelling names.

Owns the rule what a ref may be: a branch, a tag (annotated ones peel), a full ref name, or a full SHA that some ref reaches. Everything else git would
understand (abbreviations, `main~1`, `HEAD`, options) names nothing here. `refs/arena` holds our own pins: it is never an answer and makes no
commit reachable. Reads only, and blocks: callers run it in a thread.
"""

import difflib
import itertools
import re
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

from dulwich.errors import ApplyDeltaError, ChecksumMismatch, FileFormatException
from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tag, Tree
from dulwich.repo import Repo

from gitops.errors import RefNotFound, StorageFailed
from gitops.processes import GitCommand, git_environment, git_program
from gitops.ref_files import read_ref
from gitops.tree_names import shown

PINS_PREFIX = "refs/arena/"

_SPELLINGS = "name a branch, a tag, a full ref (refs/heads/main) or a full commit SHA"
_NAME_PROBLEMS = (
    ("it is empty", re.compile(r"\A\Z")),
    ("it is not UTF-8", re.compile(r"[\ud800-\udfff]")),
    ("it begins with '-'", re.compile(r"\A-")),
    ("it holds a control character", re.compile(r"[\x00-\x1f\x7f]")),
    ("HEAD is not a branch", re.compile(r"\A(?:HEAD|@)\Z")),
    ("it is a revision expression, not a ref", re.compile(r"[~^:]|\.\.|@\{")),
    ("no ref can have this name", re.compile(r"[ ?*\[\\]|//|\A/|[/.]\Z|(?:\A|/)\.|\.lock(?:/|\Z)")),
)
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{4,64}")
_DAMAGE = (FileFormatException, ChecksumMismatch, ApplyDeltaError, zlib.error)
_LONGEST_BYTES = 1024
_LONGEST_PART_BYTES = 250
_DEEPEST_TAG = 10
_SUGGESTED_FROM = 1000
_WALK_TIMEOUT_S = 60.0
_KINDS: dict[type[ShaFile], str] = {Blob: "a blob", Tree: "a tree", Tag: "a tag"}


@dataclass(frozen=True, slots=True)
class ResolvedRef:
    """What a spelling names: the full name of the ref (or the SHA itself), its commit, and whether another ref has the same short name."""

    ref: str
    commit: str
    ambiguous: bool


def resolve_ref(repository: Repo, ref: str) -> ResolvedRef:
    """Return the commit that `ref` names in `repository`.

    A short name is looked up as git does: `refs/<name>`, then `refs/tags/<name>`, then `refs/heads/<name>`; the first that is no broken ref wins, and
    `ambiguous` says that there are others. A full SHA (upper case is taken too) goes before a ref of that name.

    Raises:
        RefNotFound: it names no commit; the message says why.
        StorageFailed: the repository cannot be read.
    """
    return _Resolution(repository, ref).resolve()


def ref_name_problem(name: str) -> str | None:
    """Say why `name` cannot be a ref's name, short or full (git-check-ref-format); None when it can."""
    return next((cause for cause, pattern in _NAME_PROBLEMS if pattern.search(name)), None) or _length_problem(name)


def _length_problem(name: str) -> str | None:
    parts = [len(part.encode("utf-8")) for part in name.split("/")]
    return "it is too long" if max(parts) > _LONGEST_PART_BYTES or sum(parts) + len(parts) > _LONGEST_BYTES else None


def _may_answer(name: str) -> bool:
    return name == "HEAD" or (name.startswith("refs/") and not f"{name}/".startswith(PINS_PREFIX) and ref_name_problem(name) is None)


class _Resolution:
    """One question to one repository."""

    def __init__(self, repository: Repo, ref: str) -> None:
        self._repository = repository
        self._ref = ref
        self._path = Path(repository.path).absolute()
        self._sha_digits = 64 if repository.object_format.name == "sha256" else 40

    def resolve(self) -> ResolvedRef:
        problem = ref_name_problem(self._ref)
        if problem is not None:
            raise self._not_found(problem)
        if len(self._ref) == self._sha_digits and _HEXADECIMAL.fullmatch(self._ref):
            return self._resolve_sha(self._ref.lower())
        names = [self._ref] if self._ref.startswith("refs/") else []
        names += [f"refs/{self._ref}", f"refs/tags/{self._ref}", f"refs/heads/{self._ref}"]
        found = [(name, target) for name in names if (target := self._target(name)) is not None]
        if not found:
            raise self._not_found(*self._nothing())
        name, target = found[0]
        return ResolvedRef(name, self._peel(name, target), len(found) > 1)

    def _target(self, name: str) -> str | None:
        """Return the object that a ref points at; None when there is no such ref, it is broken, or it is one of our pins by whatever name."""
        try:
            return read_ref(self._path, name, digits=self._sha_digits, may_follow=_may_answer)
        except OSError as error:
            raise self._damaged(f"{name} cannot be read: {error.strerror}") from error

    def _peel(self, name: str, target: str) -> str:
        for _ in range(_DEEPEST_TAG):
            found = self._object(target)
            if isinstance(found, Commit):
                return target
            if not isinstance(found, Tag):
                cause = "a missing object" if found is None else _KINDS.get(type(found), "no commit")
                raise self._not_found(f"{name} names {cause}, not a commit")
            target = found.object[1].decode("ascii")
        raise self._not_found(f"{name} is a tag of a tag, more than {_DEEPEST_TAG} deep")

    def _resolve_sha(self, sha: str) -> ResolvedRef:
        found = self._object(sha)
        if not isinstance(found, Commit):
            cause = "the repository holds no such commit" if found is None else f"it is {_KINDS.get(type(found), 'another object')}, not a commit"
            raise self._not_found(cause)
        if not self._is_reachable(sha):
            raise self._not_found("no branch or tag reaches this commit")
        return ResolvedRef(sha, sha, ambiguous=False)

    def _object(self, object_id: str) -> ShaFile | None:
        try:
            return self._repository.object_store[ObjectID(object_id.encode())]
        except KeyError:
            return None
        except _DAMAGE as error:
            raise self._damaged(f"object {object_id} is damaged") from error

    def _is_reachable(self, sha: str) -> bool:
        """Ask git whether anything but our pins leads to the commit: the walk needs its commit graph, which dulwich has not."""
        arguments = ["rev-list", "--max-count=1", sha, "--not", f"--exclude={PINS_PREFIX}*", "--all"]
        command = GitCommand(arguments, repository=self._path)
        try:
            done = subprocess.run(  # noqa: S603 - a checked SHA and our own words
                [git_program(), *arguments], env=git_environment(command), cwd="/", capture_output=True, timeout=_WALK_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StorageFailed(f"cannot resolve ref '{sha}' of project '{self._project}': {error}") from error
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()[-500:]
            raise self._damaged(said)
        return not done.stdout.strip()

    def _nothing(self) -> tuple[str, str]:
        if _HEXADECIMAL.fullmatch(self._ref):
            return "an abbreviated SHA names nothing", f"give all {self._sha_digits} digits, or name a branch or tag"
        try:
            keys = self._repository.refs.allkeys()
        except FileFormatException as error:
            raise self._damaged(f"its refs cannot be read: {error}") from error
        names = (key.decode("utf-8", "replace") for key in keys if key.startswith((b"refs/heads/", b"refs/tags/")))
        short = [name.split("/", 2)[2] for name in itertools.islice(names, _SUGGESTED_FROM)]
        close = difflib.get_close_matches(self._ref.removeprefix("refs/heads/").removeprefix("refs/tags/"), short, n=1)
        elsewhere = self._ref.startswith("refs/") and not self._ref.startswith(("refs/heads", "refs/tags", PINS_PREFIX))
        cause = "no ref has this name" if elsewhere else "no branch or tag has this name"
        return cause, f"did you mean '{shown(close[0])}'?" if close else _SPELLINGS

    @property
    def _project(self) -> str:
        return self._path.name.removesuffix(".git")

    def _damaged(self, cause: str) -> StorageFailed:
        return StorageFailed(f"cannot resolve ref '{self._shown}' of project '{self._project}': {cause}", hint="run `git fsck` on the repository")

    @property
    def _shown(self) -> str:
        return shown(self._ref.encode("utf-8", "surrogatepass"))

    def _not_found(self, cause: str, hint: str = _SPELLINGS) -> RefNotFound:
        return RefNotFound(f"cannot resolve ref '{self._shown}' of project '{self._project}': {cause}", hint=hint)
