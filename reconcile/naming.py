"""Names of what reconcilers create: deterministic, so that two controllers, or one that was killed, create one object.

Source: survival.md, "Names and causes".
"""

import hashlib
from collections.abc import Iterator

MAX_RUN_NAME = 50
"""A run's Job is `<run>-worker` and its pods' host names `<run>-worker-<index>`: 50 leaves room for both within 63 characters."""

MAX_LABEL = 63
"""Longest value of a label."""

SUFFIX_LENGTH = 5
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels, and no characters that look alike: as Kubernetes' own generated names."""


def run_names(job: str, job_uid: str, cause: str) -> Iterator[str]:
    """Yield names for the run of a cause, each longer than the one before.

    The first is the run's name unless another cause holds it; a clash takes the next.
    """
    digits = _encode(hashlib.sha256(f"{job_uid}\n{cause}".encode()).digest())
    for length in range(SUFFIX_LENGTH, len(digits)):
        yield f"{fit(job, MAX_RUN_NAME - length - 1)}-{digits[:length]}"


def fit(name: str, limit: int) -> str:
    """Return a name cut to `limit` characters; a cut name ends in a hash of the whole, so that two long names stay two."""
    return name if len(name) <= limit else _marked(name, name, limit)


def label(name: str, limit: int) -> str:
    """Return a name as a DNS label of at most `limit` characters; one that had dots, or was cut, ends in a hash of the whole."""
    return fit(name, limit) if "." not in name else _marked(name.replace(".", "-"), name, limit)


def _marked(text: str, name: str, limit: int) -> str:
    digest = _encode(hashlib.sha256(name.encode()).digest())[:SUFFIX_LENGTH]
    return f"{text[: limit - SUFFIX_LENGTH - 1].rstrip('-.')}-{digest}"


def _encode(digest: bytes) -> str:
    number, characters = int.from_bytes(digest, "big"), []
    while number:
        number, digit = divmod(number, len(_ALPHABET))
        characters.append(_ALPHABET[digit])
    return "".join(characters)


def first_cause() -> str:
    """Return the cause of the run that a job without a schedule starts when it is first seen."""
    return "first"


def push_cause(ref: str, commit: str, count: int) -> str:
    """Return the cause of a run that a push asks for; `count` is the ordinal that `status.lastPush` will get."""
    return f"push:{ref}:{commit}:{count}"


def request_cause(request: str) -> str:
    """Return the cause of a run that a person asks for by annotation."""
    return f"request:{request}"
