"""What a bundle reaches outside of a conversation: HTTP calls, programs, MCP servers, A2A agents; as its files say it.

Owns the values. Must not know how any of it is called.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.bundle.model import NOTHING, NOWHERE, Location


@dataclass(frozen=True, slots=True)
class HttpCall:
    """How a live tool calls a service (promptkit-format.md 6.2). `url` and header values are templates over the arguments.

    `headers_from_env` pairs a header with a variable. `body_mapping` and `response_mapping` are JMESPath, "" for none. `media` lets a reply be a picture
    or a sound, of `accept_types` when there are any. `of_job`: the address is not the bundle's, but that of whoever runs it, and may be a private one.
    """

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    headers_from_env: tuple[tuple[str, str], ...] = ()
    timeout_ms: int = 0
    redact: tuple[str, ...] = ()
    query_params: tuple[str, ...] = ()
    header_params: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    body_mapping: str = ""
    exclude: tuple[str, ...] = ()
    static_query: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    static_headers: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    static_body: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    response_mapping: str = ""
    media: bool = False
    accept_types: tuple[str, ...] = ()
    of_job: bool = False
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run. `env` are its variables; one without a value (None) is passed on from our own environment.

    `directory`, relative to the bundle's root, is where it runs. `server` keeps one process for a whole conversation. `timeout_ms` 0 is the default.
    `sandbox` is a sandbox of the format that the author asks for.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str | None] = field(default_factory=lambda: NOTHING)
    directory: str = ""
    server: bool = False
    timeout_ms: int = 0
    sandbox: Any = None
    location: Location = NOWHERE

    def __str__(self) -> str:
        return " ".join((self.command, *self.args))


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Which names count: those of `allow` (all when it is empty), less those of `block`."""

    allow: tuple[str, ...] = ()
    block: tuple[str, ...] = ()

    def passes(self, name: str) -> bool:
        """Say whether a name counts."""
        return (not self.allow or name in self.allow) and name not in self.block


@dataclass(frozen=True, slots=True)
class McpServer:
    """An MCP server (6.5). `transport` is stdio (then `command` is set), sse or streamable_http (then `url`), or "" for a `source`, which is not built."""

    name: str
    transport: str
    command: Command | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    source: str = ""
    tools: NameFilter = NameFilter()
    timeout_ms: int = 0
    location: Location = NOWHERE

    @property
    def where(self) -> str:
        """Return how to reach it, in words."""
        return f"command '{self.command}'" if self.command is not None else f"address {self.url}"


@dataclass(frozen=True, slots=True)
class AgentSkill:
    """A skill of an A2A agent."""

    id: str
    name: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    input_modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentCard:
    """What an A2A agent says of itself."""

    name: str
    skills: tuple[AgentSkill, ...] = ()
    description: str = ""
    input_modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentRule:
    """An answer of a mock agent: to the first rule whose `skill` ("" for any), text and pattern all fit. `error` answers with a failure."""

    skill: str = ""
    contains: str = ""
    regex: str = ""
    texts: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class A2aAgent:
    """An A2A agent (6.6): a mock with a `card`, or a remote one at `url`. `token` is a secret, `token_env` names the variable that holds it."""

    name: str
    card: AgentCard | None = None
    rules: tuple[AgentRule, ...] = ()
    url: str = ""
    scheme: str = "Bearer"
    token: str = field(default="", repr=False)
    token_env: str = ""
    headers: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    headers_from_env: tuple[tuple[str, str], ...] = ()
    skills: NameFilter = NameFilter()
    timeout_ms: int = 0
    location: Location = NOWHERE
