"""The authorizer of local mode: one generated token opens everything, and nothing opens without it."""

import hashlib
import hmac

from arena.authorization.errors import NotAuthenticated
from arena.authorization.port import Action, Caller, Credential


class LocalToken:
    """Knows one token, as its digest. An empty one opens nothing."""

    def __init__(self, token: str) -> None:
        self._digest = _digest(token) if token else b""

    async def authorize(self, credential: Credential, action: Action) -> Caller:
        """Let whoever has the token do anything (see `Authorizer.authorize`)."""
        del action
        if not self._digest or not hmac.compare_digest(_digest(credential.token), self._digest):
            raise NotAuthenticated("cannot log in: this is not the installation's token", hint="`arena up` prints the line that lets git find it")
        return Caller("local")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
