"""What the smart-HTTP server is given: who may do what, and its limits."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gitops.content import ProjectKey
from gitops.push_policy import PushPolicy

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Access:
    """What an authorised caller may reach: the project, and the policy that its pushes meet."""

    project: ProjectKey
    policy: PushPolicy = field(default_factory=PushPolicy)


class Authorizer(Protocol):
    """Decides about one request. Asked before the body is read, once a request."""

    async def __call__(self, headers: Mapping[str, str], namespace: str, project: str, *, write: bool, source: str) -> Access:
        """Return what the caller may reach.

        Header names are lower case; `write` means a push, its discovery included; `source` is the address that the request came from, "" where the
        server knows none.

        Raises:
            Unauthenticated: answered 401 with a Basic challenge, so that git asks its credential helper.
            Forbidden: answered 403 with the message.
            UnknownProject: answered 404.
            TooManyFailures: answered 429.
            AuthorizerUnavailable: answered 503.
        """


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of one server process. Sizes are of inflated bodies; times are seconds."""

    fetches: int = max(4, 2 * (os.cpu_count() or 1))
    pushes: int = max(4, 2 * (os.cpu_count() or 1))
    per_repository: int = 4
    waiting: int = 256
    wait_s: float = 60.0
    retry_after_s: int = 5
    negotiation_body_bytes: int = 10 * _MIB
    push_body_bytes: int = 1024 * _MIB
    inflate_ratio: int = 100
    idle_s: float = 60.0
    total_s: float = 600.0
    grace_s: float = 5.0
    check_s: float = 60.0
    notify_s: float = 10.0
