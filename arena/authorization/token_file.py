"""The authorizer of a file of tokens, for who has no account in the cluster: a build elsewhere, a team's mirror.

Owns the format. The file holds SHA-256 digests, so reading it, its Secret or a backup opens nothing. A digest without salt is enough for tokens of 128 random
bits and more, which nobody can try out; it is not for passwords that people think of.
"""

import hashlib
import hmac
import os
import re
import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import anyio
import structlog
import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from arena.authorization.errors import NotAllowed, NotAuthenticated, TokenFileInvalid
from arena.authorization.port import FETCH, GIT, PUSH, Action, Caller, Credential
from foundation.clock import Clock
from foundation.globs import glob_problem, matches_any
from reconcile.cluster.port import ARENA_PROJECT, GROUP

LOOK_S: Final = 1.0
MAX_BYTES: Final = 1024 * 1024
_OTHERS_WRITE: Final = 0o022
_HEXADECIMAL: Final = re.compile(r"[0-9a-f]{64}")
_VERBS: Final[Mapping[str, str]] = {FETCH: "read", PUSH: "push"}

_log = structlog.get_logger(__name__)


def _readable(glob: str) -> str:
    problem = glob_problem(glob) or ("" if glob.count("/") == 1 else "it must be NAMESPACE/NAME, both may hold wildcards")
    if problem:
        raise ValueError(problem)
    return glob


def _digest(text: str) -> str:
    if _HEXADECIMAL.fullmatch(text) is None:
        raise ValueError("it must be 64 hexadecimal digits: printf %s TOKEN | sha256sum")
    return text


Glob = Annotated[str, AfterValidator(_readable)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$")]
Digest = Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True), AfterValidator(_digest)]


class TokenEntry(BaseModel):
    """One token: a name for logs, its digest, what it is good for, and where."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: Name
    sha256: Digest
    scopes: Annotated[tuple[Literal["read", "push"], ...], Field(min_length=1)]
    projects: Annotated[tuple[Glob, ...], Field(min_length=1)]

    def allows(self, action: Action) -> bool:
        """Say whether the token is good for this."""
        is_git = (action.group, action.resource, action.subresource) == (GROUP, ARENA_PROJECT.plural, GIT)
        return is_git and _VERBS.get(action.verb) in self.scopes and matches_any(self.projects, f"{action.namespace}/{action.name}")


class TokenList(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    tokens: tuple[TokenEntry, ...]

    @model_validator(mode="after")
    def _has_each_once(self) -> "TokenList":
        for what, values in (("name", [token.name for token in self.tokens]), ("digest", [token.sha256 for token in self.tokens])):
            twice = [value for value, count in Counter(values).items() if count > 1]
            if twice:
                raise ValueError(f"several tokens have the {what} '{twice[0]}'")
        return self


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the file held, and by what it is seen to have changed."""

    state: tuple[int, ...]
    tokens: tuple[TokenEntry, ...] = ()
    problem: str = ""


class TokenFile:
    """Knows the tokens of a file, which is looked at again every second that somebody asks.

    A file that has become unreadable or wrong leaves the last good one in force, and an error in the log: to withdraw all tokens, write `tokens: []`.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._tokens: tuple[TokenEntry, ...] = ()
        self._state: tuple[int, ...] | None = None
        self._next_look = 0.0
        self._looking = anyio.CapacityLimiter(1)

    async def read(self) -> None:
        """Read the file for the first time.

        Raises:
            TokenFileInvalid: it cannot be used; nothing is known.
        """
        reading = await self._read()
        if reading is not None and reading.problem:
            raise TokenFileInvalid(f"cannot use token file '{self._path}': {reading.problem}", hint="docs/authorization.md shows one")

    async def authorize(self, credential: Credential, action: Action) -> Caller:
        """Return the token's name, if its scopes and projects let it (see `Authorizer.authorize`)."""
        await self._refresh()
        found = self._find(credential.token)
        if found is None:
            raise NotAuthenticated("cannot log in: the token is not known here")
        if not found.allows(action):
            raise NotAllowed(f"cannot {action}: token '{found.name}' is not good for it", hint="its scopes and projects stand in the token file")
        return Caller(found.name)

    def _find(self, token: str) -> TokenEntry | None:
        """Return the token's entry; takes as long for every token, known or not.

        A digest of the token with a line's end behind it is the token's too: that is what `echo TOKEN | sha256sum` prints.
        """
        digests = [hashlib.sha256(text.encode()).hexdigest() for text in (token, f"{token}\n")]
        found = None
        for entry in self._tokens:
            for digest in digests:
                if hmac.compare_digest(entry.sha256, digest):
                    found = entry
        return found

    async def _refresh(self) -> None:
        now = self._clock.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_S
        reading = await self._read()
        if reading is not None and reading.problem:
            _log.error("token file broken", path=str(self._path), cause=reading.problem, in_force=len(self._tokens))

    async def _read(self) -> _Reading | None:
        """Read the file unless it is what it was, and take over what it holds if it is good."""
        reading = await anyio.to_thread.run_sync(_reading, self._path, self._state, limiter=self._looking)
        if reading is None:
            return None
        self._state = reading.state
        if not reading.problem:
            self._tokens = reading.tokens
            _log.info("token file read", path=str(self._path), tokens=[token.name for token in self._tokens])
        return reading


def _reading(path: Path, known: tuple[int, ...] | None) -> _Reading | None:
    """Return what the file holds now, None when its state is the known one."""
    state: tuple[int, ...] = ()
    try:
        with path.open("rb") as stream:
            facts = os.fstat(stream.fileno())
            state = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_mode)
            if state == known:
                return None
            if facts.st_mode & _OTHERS_WRITE:  # reading it opens nothing, writing it opens everything
                return _Reading(state, problem=f"others than its owner may write it (mode {stat.S_IMODE(facts.st_mode):04o})")
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        return _Reading(state, problem=error.strerror or type(error).__name__) if state != known else None
    if len(content) > MAX_BYTES:
        return _Reading(state, problem=f"it has more than {MAX_BYTES} bytes")
    try:
        return _Reading(state, TokenList.model_validate(_parsed(content)).tokens)
    except ValueError as error:
        return _Reading(state, problem=_problem(error))


def _parsed(content: bytes) -> Any:
    """Return the document. What is said of one that is none quotes nothing of it: somebody may have written a token where its digest belongs."""
    try:
        return yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"it is no YAML (line {mark.line + 1})" if mark else "it is no YAML") from None


def _problem(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where, said = first["loc"], first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        where, said = where[:-1], "a key is none of name, sha256, scopes and projects" if where[:-1] else "a key is not `tokens`"
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).removeprefix(".")
    return f"{place}: {said}" if place else said
