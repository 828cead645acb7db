"""The authorizer of a cluster: the API server says whose a token is (TokenReview), and what its owner may do (SubjectAccessReview).

Owns what is asked, and for how long an answer counts. Keeps digests of tokens under a key of this process, never a token.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog

from arena.authorization.errors import DecisionUnavailable, NotAllowed, NotAuthenticated
from arena.authorization.memory import BriefMemory, Questions
from arena.authorization.port import Action, Caller, Credential
from foundation.clock import Clock
from reconcile.cluster.port import Object, ResourceKind
from reconcile.cluster.reviews import SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW, Reviews
from reconcile.errors import ClusterError, Forbidden, StoreUnavailable

YES_S: Final = 10.0
"""For how long a token is known, and an action allowed, after the API server said so: a token that is revoked, or a role that is taken away, may work for
this long (an API server remembers tokens for 10 s of its own); a clone is two or three requests, and a build that clones fifty times asks once."""
NO_S: Final = 5.0
"""The same for a refusal: for so long a new role may not be seen yet."""
SEEN_S: Final = 3600.0
"""For how long the API server is asked again about a token that it knew once, however many logins from its address fail meanwhile."""
REVIEW_S: Final = 10.0
_NOBODY: Final = ("", "system:anonymous")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _User:
    """Whom a token stands for, in full, as the second question has to name it."""

    name: str
    uid: str
    groups: tuple[str, ...]
    extra: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Unknown:
    """That a token is nobody's. `cause` is the API server's word."""

    cause: str


class TokenReviewAuthorizer:
    """Lets in whom the API server knows to what RBAC grants: `get` on `arenaprojects/git` to fetch, `update` to push.

    Only tokens for the API server's own audience are known. Equal questions at one time are one; answers are remembered for seconds, at most 4,096 of a sort, so
    wrong tokens cannot push out the known ones. An API server that does not answer lets nobody in but those it let in seconds ago.
    """

    def __init__(self, reviews: Reviews, clock: Clock, *, review_s: float = REVIEW_S) -> None:
        self._reviews = reviews
        self._review_s = review_s
        self._key = secrets.token_bytes(32)
        self._users: BriefMemory[bytes, _User] = BriefMemory(clock, YES_S)
        self._strangers: BriefMemory[bytes, _Unknown] = BriefMemory(clock, NO_S)
        self._seen: BriefMemory[bytes, bool] = BriefMemory(clock, SEEN_S)
        self._allowed: BriefMemory[tuple[_User, Action], bool] = BriefMemory(clock, YES_S)
        self._refused: BriefMemory[tuple[_User, Action], bool] = BriefMemory(clock, NO_S)
        self._tokens: Questions[bytes, _User | _Unknown] = Questions()
        self._actions: Questions[tuple[_User, Action], bool] = Questions()

    async def authorize(self, credential: Credential, action: Action) -> Caller:
        """Return the caller, if RBAC lets it (see `Authorizer.authorize`)."""
        user = await self._whose(credential)
        if not await self._may(user, action):
            raise NotAllowed(
                f"cannot {action}: '{user.name}' may not",
                hint=f"a role in the namespace must grant '{action.verb}' on '{action.resource}{action.subresource and '/'}{action.subresource}'",
            )
        return Caller(user.name)

    async def _whose(self, credential: Credential) -> _User:
        key = hashlib.blake2b(credential.token.encode(), key=self._key, digest_size=32).digest()
        found = self._users.recall(key) or self._strangers.recall(key)
        if found is None and credential.suspect and not self._seen.recall(key):
            found = _Unknown("the API server was not asked: too many logins from this address have failed")
        elif found is None:
            found = await self._tokens.ask(key, partial(self._ask_whose, key, credential.token))
        if isinstance(found, _Unknown):
            raise NotAuthenticated(
                "cannot log in: the token is not known here, or is no longer valid",
                hint="use a service account's token as the password: kubectl create token NAME",
                cause=found.cause,
            )
        return found

    async def _ask_whose(self, key: bytes, token: str) -> _User | _Unknown:
        status = await self._review(TOKEN_REVIEW, {"token": token})
        user = _user(status.get("user") or {})
        if status.get("authenticated") is not True or user.name in _NOBODY:
            said = str(status.get("error") or "the API server does not know the token")
            return self._strangers.keep(key, _Unknown(said.replace(token, "[token]")[:200]))
        self._seen.keep(key, answer=True)
        return self._users.keep(key, user)

    async def _may(self, user: _User, action: Action) -> bool:
        key = (user, action)
        for memory in (self._allowed, self._refused):
            if (answer := memory.recall(key)) is not None:
                return answer
        return await self._actions.ask(key, partial(self._ask_may, user, action))

    async def _ask_may(self, user: _User, action: Action) -> bool:
        status = await self._review(SUBJECT_ACCESS_REVIEW, _question(user, action))
        if status.get("evaluationError"):
            _log.warning("review incomplete", caller=user.name, action=str(action), cause=str(status["evaluationError"])[:200])
        allowed = status.get("allowed") is True
        return (self._allowed if allowed else self._refused).keep((user, action), answer=allowed)

    async def _review(self, kind: ResourceKind, spec: Object) -> Object:
        try:
            async with asyncio.timeout(self._review_s):
                return await self._reviews.review(kind, spec)
        except TimeoutError as error:
            raise DecisionUnavailable(f"cannot decide: the API server takes more than {self._review_s:g} s for a {kind}") from error
        except (Forbidden, StoreUnavailable) as error:
            hint = (
                "apply manifests/base, or bind the ClusterRole system:auth-delegator to our service account"
                if isinstance(error, Forbidden)
                else error.hint
            )
            raise DecisionUnavailable(f"cannot decide: {error.message}", hint=hint) from error
        except ClusterError as error:  # whose message may quote what was asked
            raise DecisionUnavailable(f"cannot decide: the API server refuses the {kind} ({type(error).__name__})") from None


def _user(said: Mapping[str, Any]) -> _User:
    extra = {str(key): tuple(map(str, values or ())) for key, values in (said.get("extra") or {}).items()}
    groups = tuple(map(str, said.get("groups") or ()))
    return _User(str(said.get("username") or ""), str(said.get("uid") or ""), groups, tuple(sorted(extra.items())))


def _question(user: _User, action: Action) -> Object:
    attributes = {
        "verb": action.verb,
        "group": action.group,
        "resource": action.resource,
        "subresource": action.subresource,
        "namespace": action.namespace,
        "name": action.name,
    }
    extra = {key: list(values) for key, values in user.extra}
    return {"user": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra, "resourceAttributes": attributes}
