"""What a vendor's protocol is to the rest: a request as JSON, and a reply out of JSON or out of the events of a stream.

Pure: a wire knows no socket, key, price or clock. Who sends its calls, retries them and times them is `remote.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.errors import ProviderError
from engine.providers.port import Reply, Request


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP POST of a protocol. `path` follows the base URL (with its query, if any); `headers` are the protocol's own, never credentials."""

    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream: its name ("" when the stream names none) and its data, as text."""

    name: str
    data: str


class Listening(Protocol):
    """One stream being read. The events come in order; after the last one `finish` is called once."""

    def take(self, event: Event) -> str:
        """Return the text that an event adds, "" when it adds none (reasoning is no text, but no silence either).

        Raises:
            ProviderError: the event is an error of the vendor's, or no event of the protocol.
        """
        ...

    @property
    def is_done(self) -> bool:
        """Whether the protocol has said that the reply is complete; whatever follows is not read."""
        ...

    def finish(self) -> Reply:
        """Return the whole reply, without cost and times.

        Raises:
            ProviderError: the stream ended before the protocol said that the reply is complete, or a tool call has no name.
        """
        ...


class Wire(Protocol):
    """A vendor's protocol, for one model and its options; used by many conversations at once."""

    def call(self, request: Request, *, streaming: bool) -> Call:
        """Return what to send for `request`.

        Raises:
            ProviderError: the protocol, or this provider's options, cannot say what the request asks (`invalid_request`).
        """
        ...

    def reply(self, body: Any) -> Reply:
        """Read a whole reply from its JSON, without cost and times.

        Raises:
            ProviderError: the JSON is an error of the vendor's, or no reply of the protocol (`protocol`).
        """
        ...

    def listen(self) -> Listening:
        """Begin to read a stream."""
        ...

    def refusal(self, status: int, body: bytes) -> ProviderError:
        """Return what an HTTP status other than 2xx means, with the vendor's own words, and without anything secret.

        `retry_after_s` stays None: the headers are the sender's. An exhausted quota is `rate_limit` and not transient.
        """
        ...
