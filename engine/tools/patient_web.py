"""HTTP to the endpoints of a job's tool registries, whose outages are never scores.

Owns what of such an endpoint is an outage: nobody listens, no answer in time, an answer of 500 or more, or of 408, 425 or 429. The request is then made
again with the same patience as a model's, and so may reach the tool more than once; what remains ends the item, not as something that a model reads. So
does at once what no patience mends: an address that may not be reached or does not prove who it is, that asks for more time than a run waits, or that lets
nobody call the tool as we do, whatever the model wrote (401, 405, 407). Must not know tools.
"""

from collections.abc import Mapping

from engine.errors import ProviderError, ToolsUnavailable
from engine.providers.refusals import wishing
from engine.providers.retry import Retries, Tries
from engine.providers.retry_after import retry_after_s
from engine.tools.web import AnswerTooLong, Web, WebAnswer, WebError, WebRequest, origin, shown
from foundation.clock import Clock

_FIRST_FAULT_OF_SERVER = 500
_LATER = frozenset((408, 425, 429))
"""Answers that say nothing of the call, but that it came too soon or too slowly."""

_NEVER = frozenset((401, 405, 407))
"""Answers to whoever calls, and not to what the model wrote: without a credential that counts here, or by a method that is none here."""

Origin = tuple[str, str | None, int | None]


class PatientWeb:
    """The endpoints that one runner's items call. Those of one origin share what is known of its outage."""

    def __init__(self, web: Web, clock: Clock, patience_s: float) -> None:
        self._web = web
        self._clock = clock
        self._patience_s = patience_s
        self._retries: dict[Origin, Retries] = {}

    @property
    def troubles(self) -> Mapping[str, str]:
        """Return why calls wait to be made again, by endpoint (`scheme://host:port`)."""
        return {f"{where[0]}://{where[1]}:{where[2]}": retries.trouble for where, retries in self._retries.items() if retries.trouble}

    async def fetch(self, request: WebRequest) -> WebAnswer:
        """Return the answer, which is the tool's own.

        Raises:
            AnswerTooLong: the answer is not one to be read whole.
            ToolsUnavailable: the endpoint was out for as long as there is patience (transient), or no patience would help.
        """
        where = origin(request.url)
        retries = self._retries.get(where)
        if retries is None:
            retries = self._retries[where] = Retries(self._clock, patience_s=self._patience_s)
        tries = retries.begin()
        while True:
            began = self._clock.monotonic()
            try:
                answer = await self._once(request)
            except ProviderError as outage:
                await self._pause(tries, outage, self._clock.monotonic() - began)
            else:
                tries.answered()
                return answer

    @staticmethod
    async def _pause(tries: Tries, outage: ProviderError, latency_s: float) -> None:
        try:
            await tries.pause(outage, latency_s=latency_s)
        except ProviderError as last:
            raise _lost(last.message, transient=last.transient) from last

    async def _once(self, request: WebRequest) -> WebAnswer:
        try:
            answer = await self._web.fetch(request)
        except AnswerTooLong:
            raise
        except WebError as error:
            if not error.is_outage:
                raise _lost(error.message, hint=error.hint) from error
            raise ProviderError(error.message, kind="unavailable", transient=True) from error
        message = f"{shown(request.url)} answered {answer.status} {answer.reason}"
        if answer.status in _NEVER:
            raise _lost(message, hint="check the endpoint of its ToolRegistry, and the method and headers of its file")
        if answer.status < _FIRST_FAULT_OF_SERVER and answer.status not in _LATER:
            return answer
        wish_s = retry_after_s(answer.headers, answer.body, self._clock.now())
        raise wishing(ProviderError(message, kind="unavailable", transient=True), wish_s)


def _lost(cause: str, *, hint: str = "", transient: bool = False) -> ToolsUnavailable:
    return ToolsUnavailable(f"cannot call a tool of the job's registries: {cause}", hint=hint, transient=transient)
