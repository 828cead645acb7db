"""A delivery of a git host: what came, and what a `GitHost` reads out of it.

Owns the port that hooks/hosts fills, one file a host. A host knows signatures and payloads, and nothing of projects, limits or answers.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from starlette.datastructures import Headers

from gitops.remote import same_repository

Payload = dict[str, Any]


class Proof(Enum):
    """Where the proof of a delivery's origin stands."""

    ABSENT = "absent"
    HEAD = "head"
    """In the head alone: it can be checked before the body is read."""
    BODY = "body"
    """A signature over the body."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request as it came. `document` is the JSON text: the body itself, or the field `payload` of a form."""

    headers: Headers
    body: bytes = b""
    document: bytes = b""


@dataclass(frozen=True, slots=True)
class Notice:
    """What a delivery says. None of it is trusted beyond what the secret proves, and none of it decides what is fetched.

    `asks`: the event may mean that refs have changed. `repositories`: every URL of the repository that the payload holds; `path`: the end of its
    path, where it holds none.
    """

    event: str
    asks: bool
    repositories: tuple[str, ...]
    ref: str = ""
    path: str = ""

    def names(self, remote: str) -> bool:
        """Say whether the repository is the one at the URL `remote`, whatever spelling the host uses for it."""
        if self.path:
            return unquote(urlsplit(remote).path).rstrip("/").casefold().removesuffix(".git").endswith(f"/{self.path.casefold()}")
        return any(same_repository(spelling, remote) for spelling in self.repositories)


@dataclass(frozen=True, slots=True)
class Sample:
    """A delivery of a push that changes nothing, without its proof."""

    headers: dict[str, str]
    payload: Payload


class GitHost(Protocol):
    """One kind of git host."""

    @property
    def name(self) -> str:
        """The host's name in `spec.external.webhook.host` and in the path."""

    @property
    def challenge(self) -> str:
        """The scheme that an answer of 401 asks for: one of HTTP where the host uses one, otherwise a word that says what is missing."""

    @property
    def forms(self) -> bool:
        """Whether the host can send its payload as a form."""

    def proof(self, headers: Headers) -> Proof:
        """Say where the proof stands; ABSENT when the head has none that this host would send."""

    def is_proven(self, delivery: Delivery, secret: bytes) -> bool:
        """Say whether whoever sent the delivery knows the secret, never "". Constant time in the secret."""

    def notice(self, headers: Headers, payload: Payload) -> Notice:
        """Read a payload of any shape; what has the wrong type counts as absent."""

    def sample(self, remote: str) -> Sample:
        """Return a push to the repository at `remote`."""

    def sign(self, secret: bytes, body: bytes, moment: datetime) -> dict[str, str]:
        """Return the headers that prove `body`, a JSON text, as the host would send them at `moment`."""
