"""What every server of ours asks before it does anything: from a request's headers to the caller, or to the refusal that it is answered.

Owns the order: read the credential, ask the authorizer, count what fails.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import structlog

from arena.authorization.credentials import EITHER, is_shown, read_credential
from arena.authorization.errors import DecisionUnavailable, NotAllowed, NotAuthenticated
from arena.authorization.failures import Failures
from arena.authorization.port import Action, Authorizer, Caller, Credential, Scheme
from hooks.payload import printable

_log = structlog.get_logger(__name__)


class InTurn:
    """Asks one authorizer after the other, until one knows the credential. What that one says holds: nobody else is asked."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = authorizers

    async def authorize(self, credential: Credential, action: Action) -> Caller:
        """Return the caller (see `Authorizer.authorize`); a credential that nobody knows is refused in the words of the last."""
        error = NotAuthenticated("cannot log in: nobody is known here")
        for authorizer in self._authorizers:
            try:
                return await authorizer.authorize(credential, action)
            except NotAuthenticated as unknown:
                error = unknown
        raise error


class Entrance:
    """The way in of one process; share it among its servers, so that failures are counted together."""

    def __init__(self, authorizer: Authorizer, failures: Failures) -> None:
        self._authorizer = authorizer
        self._failures = failures

    async def admit(self, headers: Mapping[str, str], source: str, action: Action, *, schemes: Collection[Scheme] = EITHER) -> Caller:
        """Return the caller, who may do this. Header names are lower case; `source` is the client's address, "" for none.

        Raises:
            NotAuthenticated: no credential, or none that is known.
            TooManyFailures: the same, and too many before it.
            NotAllowed, DecisionUnavailable: see `Authorizer.authorize`.
        """
        try:
            credential = read_credential(headers, source, schemes=schemes)
            return await self._authorizer.authorize(replace(credential, suspect=self._failures.is_suspect(source)), action)
        except NotAuthenticated as error:
            if not is_shown(headers):
                raise
            raise self._failures.refuse(error, source, action) from None
        except NotAllowed as error:
            _log.warning("action refused", source=source, action=printable(str(action)), cause=printable(error.message, 1024))
            raise
        except DecisionUnavailable as error:
            _log.error("decision unavailable", action=printable(str(action)), cause=printable(error.message, 1024))
            raise
