"""What a push may do: which refs, which faults of history, how much.

Owns the rules that need nothing but the list of refs, the settings under which git itself refuses the rest, and the words of every refusal. Rules about
trees and blobs are checked in the quarantine by `push_check`. Must not know how a push arrives.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gitops.receive_protocol import RefCommand
from gitops.tree_rules import SnapshotLimits

BRANCHES = "refs/heads/"
MAIN_REF = b"refs/heads/main"
MAIN_PUSH = "git push origin HEAD:main"

# Faults of bygone tools that old public histories carry: they harm nobody, so they are only said.
HARMLESS_FAULTS = (
    "badDate",
    "badDateOverflow",
    "badEmail",
    "badName",
    "badTagName",
    "badTimezone",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "missingTaggerEntry",
    "multipleAuthors",
    "nulInCommit",
    "zeroPaddedDate",
    "zeroPaddedFilemode",
)
# Faults that push_check finds itself, in every new tree, because it can name the path.
FAULTS_CHECKED_WITH_PATH = ("badFilemode", "emptyName", "fullPathname", "hasDot", "hasDotdot", "hasDotgit")

FSCK_FAULT = re.compile(r"error: object ([0-9a-f]{40,64}): (\w+): (.*)")
VOLUME_TROUBLES = ("No space left on device", "Disk quota exceeded", "Read-only file system", "Input/output error")
_ABSENT = re.compile(r"did not receive expected object ([0-9a-f]{40,64})")
# What git says of a ref that lies where another needs a directory, and of one that is not any more what the client was told.
_CONFLICT = re.compile(r"cannot lock ref '[^']*': '([^']*)' exists; cannot create")
_LOCKED = re.compile(r"cannot lock ref '([^']*)': Unable to create '.*\.lock': File exists")
_MOVED = ("failed to update ref", "cannot lock ref", "incorrect old value provided", "reference already exists")
_MAX_WORDS = 10
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class PushPolicy:
    """What one project allows.

    `refs`: main alone, or any branch and tag. `allow_force`: branches may lose commits, refs may be deleted; `force_remedy` tells the user how that could
    be allowed here. `push_options`: clients may send options, which this server hands to nobody.
    """

    refs: Literal["main", "any"] = "main"
    allow_force: bool = False
    push_options: bool = False
    max_pack_bytes: int = 256 * _MIB
    max_blob_bytes: int = 64 * _MIB
    limits: SnapshotLimits = field(default_factory=SnapshotLimits)
    force_remedy: str = "merge instead, or have the project allow force pushes"

    def hosts(self, ref: bytes) -> bool:
        """Say whether a ref may exist here."""
        return ref == MAIN_REF if self.refs == "main" else ref.startswith((b"refs/heads/", b"refs/tags/"))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a push is refused: a short cause for each ref at fault, and the lines that the user reads."""

    causes: Mapping[bytes, str]
    words: Sequence[str]


def refuse_commands(commands: Sequence[RefCommand], policy: PushPolicy) -> Refusal | None:
    """Say why the refs of a push cannot be moved; None when git may try. One bad ref refuses the whole push, so that a refused push changes nothing."""
    causes: dict[bytes, str] = {}
    words: list[str] = []
    for command in commands:
        if not policy.hosts(command.ref):
            causes[command.ref] = "only main is hosted" if policy.refs == "main" else "only branches and tags are hosted"
            words.append(_other_ref(command, policy))
        elif command.deletes and not policy.allow_force:
            causes[command.ref] = "deletion is not allowed"
            words.append(f"error: cannot delete '{_short(command.name)}': its commits would be lost; {policy.force_remedy}")
        del words[_MAX_WORDS:]
    return Refusal(causes, words) if causes else None


def refuse_pack_size(commands: Sequence[RefCommand], policy: PushPolicy) -> Refusal:
    """Return the refusal of a push whose pack is larger than the policy allows."""
    limit = policy.max_pack_bytes
    shown = f"{limit / _MIB:g} MiB" if limit >= _MIB else f"{limit} bytes"
    words = f"error: cannot accept the push: its pack is larger than {shown}; push the history in parts, or keep large files elsewhere"
    return Refusal({command.ref: "pack too large" for command in commands}, [words])


def explain_report(fates: Mapping[str, str], said: Sequence[str], policy: PushPolicy) -> tuple[list[str], str]:
    """Turn what receive-pack reports into (lines for the user, the cause to report instead of a bare unpacker error; empty: as it is)."""
    unpack = fates.get("unpack", "ok")
    if unpack != "ok":
        line, cause = _explain_unpack(unpack, said)
        return [line], cause
    words = [_explain_ref(_short(ref), cause, said, policy) for ref, cause in fates.items() if cause != "ok"]
    return [line for line in words if line][:_MAX_WORDS], ""


def met_ref_lock(said: Sequence[str]) -> bool:
    """Say whether receive-pack found the lock file of a ref: of a push through another replica, or of one that died."""
    return any(_LOCKED.search(line) for line in said)


def receive_settings(policy: PushPolicy) -> dict[str, str]:
    """Return the git settings of one receive-pack. They are the second line behind `refuse_commands`: git alone would refuse the same refs."""
    allowed = "false" if policy.allow_force else "true"
    return {
        "receive.fsckObjects": "true",
        **{f"receive.fsck.{fault}": "warn" for fault in HARMLESS_FAULTS},
        **{f"receive.fsck.{fault}": "ignore" for fault in FAULTS_CHECKED_WITH_PATH},
        "receive.unpackLimit": "1",
        "receive.maxInputSize": str(policy.max_pack_bytes + 65536),
        "receive.autogc": "false",
        "receive.denyNonFastForwards": allowed,
        "receive.denyDeletes": allowed,
        "receive.denyDeleteCurrent": "ignore" if policy.allow_force else "refuse",
        "receive.denyCurrentBranch": "ignore",
        "receive.advertisePushOptions": "true" if policy.push_options else "false",
        "receive.shallowUpdate": "false",
        "receive.hideRefs": "refs",
        **(
            {"receive.hideRefs#2": f"!{MAIN_REF.decode()}"}
            if policy.refs == "main"
            else {"receive.hideRefs#2": "!refs/heads", "receive.hideRefs#3": "!refs/tags"}
        ),
        "transfer.hideRefs": "refs/arena",
        "transfer.advertiseSID": "false",
    }


def _other_ref(command: RefCommand, policy: PushPolicy) -> str:
    verb = "delete" if command.deletes else "push to"
    if policy.refs == "any":
        return f"error: cannot {verb} '{command.name}': only branches and tags are hosted here; use a name in refs/heads/ or refs/tags/"
    return f"error: cannot {verb} '{command.name}': only 'refs/heads/main' is hosted here; use `{MAIN_PUSH}`"


def _short(ref: str) -> str:
    return ref.removeprefix(BRANCHES)


def _explain_unpack(unpack: str, said: Sequence[str]) -> tuple[str, str]:
    """Say in words why git did not take the pack: the line for the user, and the cause in short."""
    trouble = next((cause.lower() for cause in VOLUME_TROUBLES if any(cause in line for line in said)), None)
    if trouble is not None:
        return f"error: cannot store the push: {trouble} on the server; free the content volume, then push again", trouble
    fault = next((match for line in said if (match := FSCK_FAULT.search(line))), None)
    if fault is not None:
        object_id, check, detail = fault[1], fault[2], fault[3]
        line = f"error: cannot accept object {object_id}: check '{check}' fails ({detail}); rewrite the commits that hold it, then push again"
        return line, f"object {object_id[:12]} fails check '{check}'"
    absent = next((match[1] for line in said if (match := _ABSENT.search(line))), None)
    if absent is not None:
        line = f"error: cannot accept the push: it needs object {absent}, which neither the push nor the server has; run `git fsck`, then push again"
        return line, f"object {absent[:12]} is missing"
    return f"error: cannot accept the push: the pack is damaged or incomplete ({unpack}); run `git fsck`, then push again", unpack


def _explain_ref(name: str, cause: str, said: Sequence[str], policy: PushPolicy) -> str:
    """Say in words why git did not move one ref; nothing when its own cause says it all."""
    if cause == "non-fast-forward":
        return f"error: cannot replace '{name}': commits would be lost; {policy.force_remedy}"
    if cause == "missing necessary objects":
        return f"error: cannot move '{name}': it needs objects that neither the push nor the server has; run `git fsck`, then push again"
    conflict = next((match[1] for line in said if f"/{name}'" in line and (match := _CONFLICT.search(line))), None)
    if conflict is not None:
        return f"error: cannot create '{name}': '{_short(conflict)}' exists, and a name cannot be a directory of names too; choose another"
    if any(_short(match[1]) == name for line in said if (match := _LOCKED.search(line))):
        return f"error: cannot move '{name}': another push is moving it, or died amid that; push again in a few seconds"
    if any(cause.startswith(words) for words in _MOVED):
        return f"error: cannot move '{name}': it was moved meanwhile; run `git fetch`, then push again"
    return ""
