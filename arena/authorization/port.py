"""The Authorizer port: a credential and what it is to be good for go in, the caller comes out.

Actions are spelled in Kubernetes' words, whatever adapter decides: a verb on an object or on a part of it. So an action is what an RBAC role grants, and
what `kubectl auth can-i` answers. The suite in tests/authorization/test_authorizer.py states the rules of the port once for every adapter.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from reconcile.cluster.port import ARENA_PROJECT, GROUP

Scheme = Literal["basic", "bearer"]

FETCH: Final = "get"
PUSH: Final = "update"
GIT: Final = "git"


@dataclass(frozen=True, slots=True)
class Credential:
    """What a request shows of its sender: never empty, and never printed.

    `scheme` is how it came; `source` the address that it came from, "" for none. `suspect`: so many logins from there have failed that whoever decides must
    ask nobody else about it: what is known at hand is answered as ever, anything else is not authenticated.
    """

    token: str = field(repr=False)
    scheme: Scheme = "bearer"
    source: str = ""
    suspect: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """A verb on an object, or on a part of it (`subresource`); `namespace` and `name` are "" for all of them."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    group: str = GROUP

    def __str__(self) -> str:
        thing = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        place = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.verb} {thing} '{place}'" if place else f"{self.verb} {thing}"


def fetch(namespace: str, project: str) -> Action:
    """Return what it is to clone and fetch a project: `get` on `arenaprojects/git`."""
    return Action(FETCH, ARENA_PROJECT.plural, namespace, project, GIT)


def push(namespace: str, project: str) -> Action:
    """Return what it is to push to a project: `update` on `arenaprojects/git`."""
    return Action(PUSH, ARENA_PROJECT.plural, namespace, project, GIT)


@dataclass(frozen=True, slots=True)
class Caller:
    """Whom a credential stands for, as a log names it: `system:serviceaccount:team:ci`, or a token's name."""

    name: str


class Authorizer(Protocol):
    """Says what a credential is good for.

    What it lets in was allowed at that time or a few seconds earlier; what it cannot find out it does not let in. It keeps no token where it could be read.
    """

    async def authorize(self, credential: Credential, action: Action) -> Caller:
        """Return the caller, who may do this.

        Raises:
            NotAuthenticated: the credential is none of those that this authorizer knows; another one may.
            NotAllowed: it is, and is not good for this action, whether or not the object exists.
            DecisionUnavailable: nobody can say now.
        """
