"""What a fetch changed, as one sentence that stays short however much it was."""

from collections.abc import Iterable, Sequence

from gitops.inspection import printable
from gitops.mirrors import RefChange

NAMED = 3
NAME_CHARACTERS = 60
_GROUPS = (
    ("renamed", "renamed"),
    ("forced", "forced"),
    ("deleted", "deleted"),
    ("moved-tag", "moved tags"),
    ("created", "new"),
)


def describe_changes(changes: Sequence[RefChange]) -> str:
    """Return what a person should know of a fetch's changes, counts and the first names; "" when branches only went on."""
    said = [f"the default branch is {_name(change.ref)}, was {_name(change.was)}" for change in changes if change.kind == "default-moved"]
    for kind, words in _GROUPS:
        found = [change for change in changes if change.kind == kind]
        if found:
            said.append(f"{words}: {_listed(_shown(change) for change in found[:NAMED])}{_more(len(found))}")
    return "; ".join(said)


def describe_names(names: Sequence[str]) -> str:
    """Return the first of some ref names, and how many more there are."""
    return f"{_listed(_name(name) for name in names[:NAMED])}{_more(len(names))}"


def _shown(change: RefChange) -> str:
    match change.kind:
        case "renamed":
            return f"{_name(change.was)} to {_name(change.ref)}"
        case "forced" | "moved-tag":
            return f"{_name(change.ref)} ({change.old[:12]} to {change.new[:12]})"
        case _:
            return _name(change.ref)


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _more(count: int) -> str:
    return f" and {count - NAMED} more" if count > NAMED else ""


def _name(ref: str) -> str:
    short = printable(ref.removeprefix("refs/heads/").removeprefix("refs/"))
    return short if len(short) <= NAME_CHARACTERS else f"{short[: NAME_CHARACTERS - 1]}…"
