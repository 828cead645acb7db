"""Keep-refs: the commits that runs need, whatever happens to the branches.

Owns their names and how they are read and written. Blocking; the caller holds the repository's lock. Must not know why a commit is kept.
"""

import re
from typing import Final

from dulwich.objects import ObjectID
from dulwich.refs import Ref
from dulwich.repo import Repo

from gitops import inspection
from gitops.errors import UnsafeName

PINS: Final = b"refs/arena/runs/"
_UID = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z-]{0,62}[0-9A-Za-z])?")


def pin_name(run_uid: str) -> Ref:
    """Return the name of a run's keep-ref.

    Raises:
        UnsafeName: it is no object's uid.
    """
    if _UID.fullmatch(run_uid) is None:
        raise UnsafeName(f"cannot pin a commit for run '{run_uid[:80]!r}': it is not an object's uid")
    return Ref(PINS + run_uid.encode("ascii"))


def write_pin(repository: Repo, name: Ref, commit: str) -> None:
    """Point a keep-ref at a commit, whatever it named before.

    Raises:
        RefNotFound: the repository holds no such commit.
    """
    inspection.read_commit(repository, commit)
    repository.refs.set_if_equals(name, None, ObjectID(commit.encode("ascii")))


def read_pins(repository: Repo) -> dict[str, str]:
    """Return the kept commits by run UID, sorted."""
    names = (name for name in repository.refs.allkeys() if name.startswith(PINS))
    found = {name.removeprefix(PINS).decode("ascii"): repository.refs.read_ref(name) for name in names}
    return {uid: value.decode("ascii") for uid, value in sorted(found.items()) if value}
