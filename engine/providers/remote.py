"""A model behind a vendor's protocol: sends what the wire says, in its turn, again where that may help, and measures what was answered.

Owns the order of one call: turn, request, answer, price. Must not know any protocol, nor where a key comes from.
"""

import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from multidict import CIMultiDict
from yarl import URL

from engine.errors import ProviderError
from engine.providers.credentials import Signer
from engine.providers.limits import Limiter, Limits
from engine.providers.port import Chunk, Reply, Request
from engine.providers.refusals import shortened, wishing
from engine.providers.retry import Retries, Tries
from engine.providers.retry_after import retry_after_s
from engine.providers.sse import EventReader
from engine.providers.transport import GATHER_S, Answer, Pool, Timeouts
from engine.providers.wire import Event, Listening, Wire
from foundation.clock import Clock

if TYPE_CHECKING:
    from engine.providers.prices import Price

_written: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_MASKED: Final = re.compile(r"\S*\*{2,}\S*")
_JSON: Final = {"content-type": "application/json"}
_TOLD: Final = frozenset(("length", "content_filter"))
_HIDDEN: Final = "***"
_NO_KEY: Final = "; no key was sent: the provider's credential names none, and no variable that its type looks for is set"
_ELSEWHERE: Final = "; does its base_url name the API?"
_SHOWN_BYTES: Final = 200
_BEGINNING: Final = 10


class Framing(Protocol):
    """What cuts the bytes of one stream into events."""

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that `data` completes, in order.

        Raises:
            ProviderError: these bytes are no stream of this kind (`protocol`).
        """
        ...

    def end(self) -> list[Event]:
        """Return what the end of the stream completes."""
        ...


@dataclass(frozen=True, slots=True)
class Service:
    """Where a model is asked, how, and with whose key. Paths of the wire follow `base_url`, which ends without a slash."""

    wire: Wire
    base_url: str
    signer: Signer
    framing: Callable[[], Framing] = EventReader


@dataclass(frozen=True, slots=True)
class Account:
    """What all roles of one provider share: its limits, the patience with it; its price, None where it is not known; where its key is found, in words."""

    limiter: Limiter
    retries: Retries
    price: "Price | None" = None
    key_source: str = ""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a provider's file wants it to be asked.

    `headers` go with every request, and are not secret. `keep_raw` keeps what came in the reply's meta. A stream that broke off before its first text
    is asked for `stream_attempts` times in all at most (0: as often as any request); `most_streams` are under way at once (0: any number).
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    timeouts: Timeouts = Timeouts()  # noqa: RUF009 - frozen
    keep_raw: bool = False
    always_streams: bool = False
    stream_attempts: int = 0
    most_streams: int = 0


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request as it goes out, in each attempt the same but for the signature."""

    url: URL
    address: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class _Heard:
    """One attempt so far: what proved who asks, and how many seconds after its request the first text came, and the last event.

    `opened` says that a stream has begun; `raw` is what came of it, where that is kept.
    """

    proof: Mapping[str, str] | None = None
    last_s: float = 0.0
    first_s: float | None = None
    opened: bool = False
    raw: list[str] = field(default_factory=list)
    reply: Reply | None = None


class RemoteProvider:
    """One model, asked over HTTP by many conversations at once."""

    def __init__(self, service: Service, pool: Pool, account: Account, manner: Manner, clock: Clock) -> None:
        self._service = service
        self._pool = pool
        self._account = account
        self._manner = manner
        self._clock = clock
        self._headers = _JSON | {name.lower(): value for name, value in manner.headers.items()}
        self._urls: dict[str, tuple[URL, str]] = {}
        self._streams = Limiter(Limits(concurrency=manner.most_streams), clock) if manner.most_streams else None

    @property
    def always_streams(self) -> bool:
        """Say whether the provider's file asks for streams."""
        return self._manner.always_streams

    async def complete(self, request: Request) -> Reply:
        """Return the reply, after as many attempts as it takes and as are allowed.

        Raises:
            ProviderError: there is none.
        """
        sent = self._prepare(request, streaming=False)
        tries = self._account.retries.begin()
        while True:
            turn, heard = self._account.limiter.turn(), _Heard()
            try:
                async with turn:
                    reply = await self._ask(sent, heard)
            except ProviderError as error:
                await tries.pause(_hiding(error, heard.proof), latency_s=turn.held_s)
            else:
                return _answered(reply, tries)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the reply as it comes, what came in one piece as one chunk. Another attempt is made only while no text was given out.

        Raises (while iterating):
            ProviderError: there is none, or it broke off.
        """
        sent = self._prepare(request, streaming=True)
        tries, broken = self._account.retries.begin(), 0
        while True:
            turn, heard = self._account.limiter.turn(), _Heard()
            try:
                async with self._stream_turn(), turn, aclosing(self._listen(sent, heard)) as texts:
                    async for text in texts:
                        yield Chunk(text, attempts=tries.attempts)
            except ProviderError as error:
                hidden = _hiding(error, heard.proof)
                broken += heard.opened
                if heard.first_s is not None or (heard.opened and broken == self._manner.stream_attempts):
                    hidden.attempts = tries.attempts
                    raise hidden from None
                await tries.pause(hidden, latency_s=turn.held_s)
            else:
                if heard.reply is not None:
                    yield Chunk("", _answered(heard.reply, tries))
                return

    async def close(self) -> None:
        """Do nothing: the connections are the transport's, and others use them."""

    def _prepare(self, request: Request, *, streaming: bool) -> _Sent:
        call = self._service.wire.call(request, streaming=streaming)
        known = self._urls.get(call.path)
        if known is None:
            url = URL(self._service.base_url + call.path, encoded=True)
            known = self._urls[call.path] = url, str(url)
        try:
            body = _written(call.body).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ProviderError(f"cannot write the request as JSON: {error}", kind="invalid_request", transient=False) from None
        headers = {name.lower(): value for name, value in call.headers.items()} | self._headers if call.headers else self._headers
        return _Sent(*known, headers, body)

    def _stream_turn(self) -> AbstractAsyncContextManager[object]:
        return nullcontext() if self._streams is None else self._streams.turn()

    async def _sign(self, sent: _Sent, heard: _Heard) -> Mapping[str, str]:
        """Return the headers of an attempt."""
        proof = heard.proof = await self._service.signer.headers("POST", sent.address, sent.body)
        headers = CIMultiDict(sent.headers)
        headers.update(proof)
        return headers

    async def _ask(self, sent: _Sent, heard: _Heard) -> Reply:
        answer = await self._pool.post(sent.url, await self._sign(sent, heard), sent.body, self._manner.timeouts)
        return self._whole(answer, heard)

    def _whole(self, answer: Answer, heard: _Heard) -> Reply:
        heard.last_s = answer.took_s
        if not _is_good(answer.status):
            raise self._refusal(answer, heard)
        try:
            content = json.loads(answer.body.decode())  # given bytes, it would look for their encoding
        except (ValueError, RecursionError):
            words = shortened(answer.body[:_SHOWN_BYTES].decode("utf-8", "replace"))
            raise ProviderError(f"cannot read the reply: it is no JSON: '{words}'{_ELSEWHERE}", kind="protocol", transient=True) from None
        return self._complete(self._service.wire.reply(content), heard, content)

    async def _listen(self, sent: _Sent, heard: _Heard) -> AsyncGenerator[str, None]:
        """Yield the texts of a stream, and leave its reply in `heard`."""
        async with await self._pool.open(sent.url, await self._sign(sent, heard), sent.body, self._manner.timeouts) as stream:
            if not _is_good(stream.status) or stream.headers.get("content-type", "").startswith("application/json"):
                answer = await stream.answer()
                heard.reply = self._whole(answer, heard)
                return
            heard.opened = True
            listening, framing = self._service.wire.listen(), self._service.framing()
            while data := await stream.read():
                if not (events := framing.feed(data)):
                    continue
                stream.alive()
                before_s = heard.last_s
                if text := self._take(events, listening, heard, stream.took_s):
                    yield text
                if listening.is_done:
                    await stream.drain()
                    break
                if heard.first_s is not None and heard.last_s - before_s < GATHER_S / 2:
                    await stream.gather()
            else:
                if stream.failure is None and (events := framing.end()) and (text := self._take(events, listening, heard, stream.took_s)):
                    yield text
            try:
                reply = listening.finish()  # however the stream ended, if the protocol had said all there is
            except ProviderError as error:
                raise stream.failure or error from None
            heard.reply = self._complete(reply, heard, heard.raw)

    def _take(self, events: list[Event], listening: Listening, heard: _Heard, came_s: float) -> str:
        """Return the text that events add, and note when they came."""
        heard.last_s = came_s
        text = ""
        for event in events:
            if self._manner.keep_raw:
                heard.raw.append(event.data)
            text += listening.take(event)
            if listening.is_done:
                break
        if text and heard.first_s is None:
            heard.first_s = came_s
        return text

    def _refusal(self, answer: Answer, heard: _Heard) -> ProviderError:
        error = self._service.wire.refusal(answer.status, answer.body)
        if error.kind == "authentication":
            error = ProviderError(f"{error.message}{self._whose_key(heard)}", kind=error.kind, transient=error.transient)
        wish_s = error.retry_after_s
        return wishing(error, retry_after_s(answer.headers, answer.body, self._clock.now()) if wish_s is None else wish_s)

    def _whose_key(self, heard: _Heard) -> str:
        if not heard.proof:  # an address of one's own may ask for no key, so none was missed before
            return _NO_KEY
        return f"; the key that was sent is that of {self._account.key_source}" if self._account.key_source else ""

    def _complete(self, reply: Reply, heard: _Heard, raw: Any) -> Reply:
        """Return a reply with its price, its time, and what is kept with it; one that only says that it calls tools, and calls none, is none."""
        if reply.finish_reason == "tool_calls" and not (reply.tool_calls or reply.text or reply.parts):
            raise ProviderError("cannot read the reply: it calls tools, and its calls are missing", kind="protocol", transient=True)
        meta = reply.meta
        if reply.finish_reason in _TOLD:
            meta = {**meta, "finishReason": reply.finish_reason}
        if self._manner.keep_raw:
            meta = {**meta, "raw": raw}
        price, usage, cost = self._account.price, reply.usage, reply.cost_usd
        if cost is None and price is not None and usage is not None:
            cost = price.cost_usd(usage, cache_write_tokens=meta.get("cacheWriteTokens", 0))
        first_ms = None if heard.first_s is None else heard.first_s * 1000
        return replace(reply, latency_ms=heard.last_s * 1000, ttft_ms=first_ms, cost_usd=cost, meta=meta)


def _answered(reply: Reply, tries: Tries) -> Reply:
    tries.answered()
    return replace(reply, attempts=tries.attempts) if tries.attempts else reply


def _is_good(status: int) -> bool:
    return 200 <= status < 300  # noqa: PLR2004 - as HTTP has it


def _hiding(error: ProviderError, proof: Mapping[str, str] | None) -> ProviderError:
    """Return an error without the secrets that its request carried, nor their beginnings, nor what a vendor shows of them."""
    said = _MASKED.sub(_HIDDEN, error.message)
    for value in (proof or {}).values():
        secret = value.rpartition(" ")[2]
        for length in range(len(secret), min(len(secret), _BEGINNING) - 1, -1):  # words that were cut may end within a secret
            said = said.replace(secret[:length], _HIDDEN) if length else said
    if said == error.message:
        return error
    return ProviderError(said, kind=error.kind, transient=error.transient, retry_after_s=error.retry_after_s)
