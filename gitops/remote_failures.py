"""What a remote's failure means, and what to do about it, in words for a person.

Owns the words of every RemoteFailed that a host's answer or git's own words lead to. Pure. Must not know how the answer came.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from gitops.errors import RemoteCause, RemoteFailed, StorageFailed
from gitops.push_policy import FSCK_FAULT, VOLUME_TROUBLES
from gitops.remote import Remote
from gitops.tree_names import shown

LONGEST_RETRY_S = 86400.0
SERVER_ERRORS = 500
TOO_MANY_REQUESTS = 429

_FIELD = "spec.external.secretRef"
TRUST_HINT = f"put the certificate of its authority as ca.crt into the Secret that {_FIELD} names"
_STATUS = re.compile(r"(?:returned error:|HTTP) (\d{3})")
_GIT_CAUSES: Sequence[tuple[RemoteCause, re.Pattern[str], str, str]] = (
    (
        RemoteCause.TOO_LARGE,
        re.compile(r"[Oo]ut of memory|Cannot allocate memory"),
        "its objects need more memory than the limit allows",
        "mirror a smaller repository",
    ),
    (
        RemoteCause.REFUSED,
        re.compile(r"could not read (?:Username|Password)|Authentication failed"),
        "the host refuses the credential",
        f"check the Secret that {_FIELD} names",
    ),
    (
        RemoteCause.CERTIFICATE,
        re.compile(r"certificate|CAfile", re.IGNORECASE),
        "the host's certificate is not trusted",
        TRUST_HINT,
    ),
    (
        RemoteCause.TIMED_OUT,
        re.compile(r"[Oo]peration too slow|[Tt]imed out|[Tt]imeout"),
        "the host sends too slowly",
        "the fetch is tried again; look at the host and the network when this stays",
    ),
    (
        RemoteCause.UNREACHABLE,
        re.compile(r"Could not resolve host|Failed to connect|Couldn't connect|Connection (?:refused|reset)|Recv failure|unreachable"),
        "the connection does not come about or breaks",
        "check that this machine reaches the host",
    ),
)


def failed(remote: Remote, cause: RemoteCause, words: str, *, hint: str = "", retry_after_s: float | None = None) -> RemoteFailed:
    """Return the error `cannot fetch '<url>': <words>`, with no secret of the remote's in it. `hint` is ours alone and quotes nobody."""
    message = remote.credentials.redact(f"cannot fetch '{remote.url}': {words}")
    return RemoteFailed(message, cause=cause, hint=hint, retry_after_s=retry_after_s)


def status_failure(remote: Remote, status: int, *, retry_after: str = "", now: datetime | None = None) -> RemoteFailed:
    """Return what an HTTP status that is neither a success nor a redirect means. `retry_after` is that header's value, in either form."""
    waits = _seconds(retry_after, now)
    if status == TOO_MANY_REQUESTS or status >= SERVER_ERRORS or (status == 403 and waits is not None):  # noqa: PLR2004 - rate limits answer 403, too
        asked = "" if waits is None else f" and asks to be left alone for {waits:.0f} s"
        return failed(
            remote,
            RemoteCause.BUSY,
            f"the host answers {status}{asked}",
            hint="the fetch is tried again later; raise spec.external.pollInterval when this stays",
            retry_after_s=waits,
        )
    if status in {401, 403}:
        if remote.credentials.authorization is None:
            return failed(
                remote,
                RemoteCause.REFUSED,
                f"the host asks for a credential ({status})",
                hint=f"name a Secret with username and password, or token, in {_FIELD}",
            )
        hint = f"check that what the Secret of {_FIELD} holds has not run out and may read the repository"
        if remote.credentials.token and not remote.credentials.username:
            hint += "; a host that wants the token's own user is given it as username beside the token"
        return failed(remote, RemoteCause.REFUSED, f"the host refuses the credential ({status})", hint=hint)
    if status in {404, 410}:
        hint = "check spec.external.url, and that the credential may read it: hosts hide what it may not"
        return failed(remote, RemoteCause.NOT_FOUND, f"the host has no such repository ({status})", hint=hint)
    return failed(remote, RemoteCause.PROTOCOL, f"the host answers {status}", hint="check that spec.external.url names a git repository")


def fetch_failure(remote: Remote, said: str) -> RemoteFailed | StorageFailed:
    """Return what the words of a `git fetch` that ended with an error mean. Lines of the remote's own are not repeated."""
    lines = [line for line in said.splitlines() if not line.startswith("remote:")]
    words = "\n".join(lines)
    trouble = next((trouble for trouble in VOLUME_TROUBLES if trouble in words), None)
    if trouble is not None:
        return StorageFailed(f"cannot store what '{remote.url}' holds: {trouble.lower()}", hint="free space on the content volume")
    fault = FSCK_FAULT.search(words)
    if fault is not None:
        hint = "have the history rewritten without it on the host (git filter-repo), or mirror a repository without it"
        return failed(remote, RemoteCause.FAULTY, f"object {fault[1]} fails check '{fault[2]}' ({fault[3]})", hint=hint)
    status = _STATUS.search(words)
    if status is not None:
        return redirect_failure(remote, "") if status[1].startswith("3") else status_failure(remote, int(status[1]))
    for cause, pattern, meaning, hint in _GIT_CAUSES:
        if pattern.search(words):
            return failed(remote, cause, meaning, hint=hint)
    last = next((line for line in reversed(lines) if line.startswith(("fatal:", "error:"))), "git ended without a word")
    return failed(
        remote,
        RemoteCause.PROTOCOL,
        f"what the host sends breaks off or is no git ({shown(last)})",
        hint="the fetch is tried again; check the host when this stays",
    )


def redirect_failure(remote: Remote, to: str) -> RemoteFailed:
    """Return the refusal of a redirect; `to` is the address, as a message may show it."""
    where = f" to {to}" if to else ""
    return failed(
        remote,
        RemoteCause.REDIRECT,
        f"the host redirects{where}",
        hint="write the address that it redirects to into spec.external.url, if it is the right one",
    )


def too_large(remote: Remote) -> RemoteFailed:
    """Return the refusal of a pack over the limit."""
    words = "its pack is larger than the limit allows"
    return failed(remote, RemoteCause.TOO_LARGE, words, hint="mirror a smaller repository, or let an operator raise the limit")


def too_full(remote: Remote, limit_bytes: int) -> RemoteFailed:
    """Return the refusal of a fetch for which the mirror has no room left."""
    words = f"the mirror would hold more than {limit_bytes / (1 << 20):g} MiB"
    hint = "delete and create the project, which clones it anew without what no branch reaches, or let an operator raise the limit"
    return failed(remote, RemoteCause.TOO_LARGE, words, hint=hint)


def _seconds(retry_after: str, now: datetime | None) -> float | None:
    """Return the seconds that a Retry-After header asks for (RFC 9110, 10.2.3), at most a day; None when it says nothing that can be read."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_RETRY_S)
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    if now is None:
        return None
    seconds = ((until if until.tzinfo else until.replace(tzinfo=UTC)) - now).total_seconds()
    return min(max(seconds, 0.0), LONGEST_RETRY_S)
