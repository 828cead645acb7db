"""An API server's verdicts without an API server: whose the tokens are, what each may do, and how often it was asked."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reconcile.cluster.port import Object, ResourceKind
from reconcile.cluster.reviews import TOKEN_REVIEW

Grant = tuple[str, str, str]
"""User, verb, and `namespace/resource` or `namespace/resource/subresource`."""


@dataclass
class ScriptedReviews:
    """Answers reviews as an API server with RBAC does; `error` takes the place of every answer, and `waiting` holds them up.

    `silent`: answers are empty; `incomplete`: what the server says it could not look at.
    """

    users: dict[str, Object] = field(default_factory=dict)
    grants: set[Grant] = field(default_factory=set)
    error: Exception | None = None
    waiting: asyncio.Event | None = None
    asked: list[tuple[str, Object]] = field(default_factory=list)
    silent: bool = False
    incomplete: str = ""

    def add(self, token: str, name: str, grants: Sequence[tuple[str, str]] = (), **more: Any) -> None:
        """Let a token stand for a user who may do this."""
        self.users[token] = {"username": name, **more}
        self.grants |= {(name, verb, thing) for verb, thing in grants}

    def count(self, kind: ResourceKind) -> int:
        """Return how many reviews of a kind were asked for."""
        return sum(name == kind.kind for name, _ in self.asked)

    async def review(self, kind: ResourceKind, spec: Object) -> Object:
        """Return a verdict (see `Reviews.review`)."""
        self.asked.append((kind.kind, spec))
        if self.waiting is not None:
            await self.waiting.wait()
        if self.error is not None:
            raise self.error
        if self.silent:
            return {}
        if kind is TOKEN_REVIEW:
            user = self.users.get(spec["token"])
            return {"authenticated": True, "user": user} if user else {"error": f"invalid bearer token: {spec['token']}"}
        asked = spec["resourceAttributes"]
        thing = "/".join(part for part in (asked["namespace"], asked["resource"], asked["subresource"]) if part)
        verdict: Object = {"allowed": (spec["user"], asked["verb"], thing) in self.grants}
        return {**verdict, "evaluationError": self.incomplete} if self.incomplete else verdict
