"""Which refs `deploy.allowedRefs` allows. Pure: takes full names of refs that were resolved, and asks no repository."""

from collections.abc import Sequence

from foundation.globs import compile_glob

_BRANCHES = "refs/heads/"
_TAGS = "refs/tags/"


def is_allowed(ref: str, allowed: Sequence[str], *, default_branch: str) -> bool:
    """Say whether one of the globs matches `ref`, the full name of a ref as `ResolvedRef` has it.

    A glob that begins with `refs/` is matched with the full name, any other with the short name of a branch: a tag that is named like an allowed
    branch is not allowed. `*` stays within a segment, `**` does not. Without globs the default branch and every tag are allowed. A SHA is no ref, so
    no glob allows it.

    Raises:
        UnreadableGlob: a glob cannot be read, whatever the others say.
    """
    if not allowed:
        return ref == _BRANCHES + default_branch or ref.startswith(_TAGS)
    patterns = [(glob, compile_glob(glob)) for glob in allowed]
    branch = ref.removeprefix(_BRANCHES) if ref.startswith(_BRANCHES) else None
    full = ref if ref.startswith("refs/") else None
    subjects = [(pattern, full if glob.startswith("refs/") else branch) for glob, pattern in patterns]
    return any(subject is not None and pattern.search(subject) is not None for pattern, subject in subjects)
