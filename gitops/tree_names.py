"""Names in a tree: which may become a file name, and which two are one name elsewhere.

Pure functions over the bytes of a name. The rules are those of git's own `verify_path` with HFS+ and NTFS protection on, whatever file system
this machine has: a snapshot is read where another may be mounted.
"""

import re
import unicodedata

# A name of these characters breaks no rule and needs no second look. "~", ":" and "\" are not among them on purpose.
PLAIN_NAME = rb"[A-Za-z0-9_](?:[A-Za-z0-9_+=@,.-]*[A-Za-z0-9_+=@,-])?"
_PLAIN = re.compile(PLAIN_NAME)
# Code points that HFS+ skips when it compares names (git: utf8.c, next_hfs_char).
_HFS_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
_IMPOSSIBLE = {b"": "is empty", b".": "is '.'", b"..": "is '..'"}
_SHOWN_CHARACTERS = 200


def name_problem(name: bytes) -> str | None:
    """Say why `name` cannot be one component of a path: `is empty`, `is '..'`, `holds a slash`, …; None when it can."""
    if _PLAIN.fullmatch(name) is not None:
        return None
    if name in _IMPOSSIBLE:
        return _IMPOSSIBLE[name]
    if b"/" in name or b"\0" in name:
        return "is absolute" if name.startswith(b"/") else "holds a slash or a NUL"
    try:
        return _text_problem(name.decode("utf-8"))
    except UnicodeDecodeError:
        return "is not UTF-8"


def _text_problem(text: str) -> str | None:
    # NTFS takes the backslash for a separator, so each part of such a name must be harmless by itself.
    parts = text.split("\\")
    for part in parts:
        if is_git_directory(part):
            return "is '.git'" if text == ".git" else "is '.git' as some file systems read it"
        if len(parts) > 1 and part.rstrip(" ") in (".", ".."):
            return "holds '..' between backslashes"
    return None


def is_git_directory(name: str) -> bool:
    """Say whether some common file system opens `.git` when asked for `name`: other case, ignorable code points, `git~1`, trailing dots or spaces, a stream."""
    folded = name.translate(_HFS_IGNORED).casefold()
    windows = folded.partition(":")[0].rstrip(". ")
    return windows in (".git", "git~1")


def fold(name: str) -> str:
    """Return what a file system that folds case and composes accents would compare: two names with one fold collide."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def shown(path: str | bytes) -> str:
    """Return a path for a message: one line, printable, at most 200 characters."""
    text = path.decode("utf-8", "backslashreplace") if isinstance(path, bytes) else path
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: _SHOWN_CHARACTERS + 1])
    return printable if len(printable) <= _SHOWN_CHARACTERS else f"{printable[: _SHOWN_CHARACTERS - 3]}..."
