"""Symlinks in a tree: whether each one, followed to its end, stays inside.

Pure: decides over names alone and touches no file. A link is resolved through the other links of the tree, as a kernel would, and with folded
names, as a file system that folds case would.
"""

from collections.abc import Mapping

from gitops.tree_names import fold, shown

TARGET_LIMIT_BYTES = 1024

_MAX_HOPS = 40  # Linux: MAXSYMLINKS
_MAX_STEPS = 1024  # components walked for one link; bounds the work that a hostile tree can ask for


class LinkMap:
    """The symlinks of one tree by path, each with its target (None: longer than TARGET_LIMIT_BYTES)."""

    def __init__(self, targets: Mapping[str, bytes | None]) -> None:
        self._targets = targets
        self._folded: dict[tuple[str, ...], str] = {}
        self._longest = 0
        for path, target in targets.items():
            if target is not None:
                place = tuple(fold(part) for part in path.split("/"))
                self._folded[place] = target.decode("utf-8", "replace")
                self._longest = max(self._longest, len(place))

    def problem(self, path: str) -> str | None:
        """Say what is wrong with the link at `path`: `leaves the tree (target '../x')`, `runs in a circle or …`, …; None when it stays inside.

        A link to nothing is sound: it stays inside whatever comes there.
        """
        target = self._targets[path]
        if target is None:
            return f"has a target longer than {TARGET_LIMIT_BYTES} bytes"
        said = f"(target '{shown(target)}')"
        if not target:
            return "has an empty target"
        if b"\0" in target:
            return f"has a target with a NUL in it {said}"
        try:
            text = target.decode("utf-8")
        except UnicodeDecodeError:
            return f"has a target that is not UTF-8 {said}"
        fault = self._follow(path.split("/")[:-1], text)
        return None if fault is None else f"{fault} {said}"

    def _follow(self, directory: list[str], target: str) -> str | None:
        position = [fold(part) for part in directory]
        pending = target.split("/")[::-1]
        if target.startswith("/"):
            return "leaves the tree"
        hops = steps = 0
        while pending:
            part = pending.pop()
            steps += 1
            if steps > _MAX_STEPS:
                return "passes through too many directories and links"
            if part in ("", "."):
                continue
            if part == "..":
                if not position:
                    return "leaves the tree"
                position.pop()
                continue
            position.append(fold(part))
            following = self._folded.get(tuple(position)) if len(position) <= self._longest else None
            if following is None:
                continue
            hops += 1
            if hops > _MAX_HOPS:
                return f"runs in a circle or through more than {_MAX_HOPS} links"
            if following.startswith("/"):
                return "leaves the tree"
            position.pop()
            pending.extend(following.split("/")[::-1])
        return None
