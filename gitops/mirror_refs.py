"""The refs of a mirror: what it has, what differs from the remote's, and what to call the difference.

Reads with dulwich and blocks. Must not know how refs come in.
"""

from dataclasses import dataclass
from typing import Literal

ChangeKind = Literal["created", "deleted", "advanced", "forced", "moved-tag", "renamed", "default-moved"]


@dataclass(frozen=True, slots=True)
class RefChange:
    """One ref that a fetch changed. `ref` is its full name; `old` and `new` are object ids, "" for none.

    `renamed`: a branch went and another one came at the same commit; `ref` is the new name, `was` the old. `default-moved`: the default branch is
    now `ref` and was `was`; `old` and `new` are their commits.
    """

    kind: ChangeKind
    ref: str
    old: str
    new: str
    was: str = ""
