"""A model over HTTP: what is sent, what is measured, what is asked again, and what never shows."""

import asyncio
import json

import pytest

from engine.errors import ProviderError
from engine.providers.messages import Message
from engine.providers.port import Request
from tests.providers.conftest import KEY, Asking, chunks_of, streamed
from tests.providers.vendor_server import Close, Cut, Gate, Hang, Pause, VendorServer, answer, chunk, event, head, sse, stream_head

HI = Request([Message("user", "Hi")])
USAGE = {"prompt_tokens": 1000, "completion_tokens": 2000}
HELLO = answer({"model": "m", "choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}], "usage": USAGE})
OVERLOADED = answer({"error": {"message": "busy"}}, 503, {"Retry-After": "0"})


def delta(text: str, finish: str | None = None) -> dict[str, object]:
    """Return a chunk of a stream."""
    return {"model": "m", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


STREAM = sse(delta("Hel"), delta("lo", "stop"), {"choices": [], "usage": USAGE}, "[DONE]")


async def test_a_request_is_a_post_with_the_key_and_the_headers(server: VendorServer, ask: Asking) -> None:
    """The key goes as the protocol has it; the headers of the provider's file go along, and cannot take the key's place."""
    server.then(HELLO)
    await ask(headers={"X-Team": "eval", "authorization": "other"}).complete(HI)
    [seen] = server.requests
    assert (seen.method, seen.path, seen.json["model"]) == ("POST", "/v1/chat/completions", "m")
    assert (seen.headers.getall("Authorization"), seen.headers["X-Team"]) == ([f"Bearer {KEY}"], "eval")
    assert seen.headers["Content-Type"] == "application/json"


async def test_a_reply_has_its_price_and_its_time(server: VendorServer, ask: Asking) -> None:
    """A reply is priced by its usage, and its latency is that of the request."""
    server.then(Pause(0.05), HELLO)
    reply = await ask(pricing={"input_cost_per_1k": 0.001, "output_cost_per_1k": 0.002}).complete(HI)
    assert (reply.text, reply.attempts, reply.ttft_ms) == ("Hello", (), None)
    assert reply.cost_usd == pytest.approx(0.005)
    assert reply.latency_ms is not None
    assert reply.latency_ms >= 50


@pytest.mark.parametrize(
    ("credential", "said"),
    [
        pytest.param({"credential_env": "KEY"}, "the key that was sent is that of variable KEY", id="with a key"),
        pytest.param({}, "no key was sent", id="without"),
    ],
)
async def test_a_refusal_says_which_key_was_sent(server: VendorServer, ask: Asking, credential: dict[str, str], said: str) -> None:
    """An address of one's own may take requests without a key; where it does not, the missing key is what is wrong, else the one that is named."""
    server.then(answer({"error": {"message": "who are you?"}}, 401))
    with pytest.raises(ProviderError, match="who are you") as caught:
        await ask(credential=credential).complete(HI)
    assert caught.value.message.partition("; ")[2].startswith(said)


async def test_an_unknown_price_is_no_price(server: VendorServer, ask: Asking) -> None:
    """What is not known costs nothing known, which is not nothing."""
    server.then(HELLO)
    assert (await ask().complete(HI)).cost_usd is None


async def test_connections_are_used_again(server: VendorServer, ask: Asking) -> None:
    """Requests one after the other take one connection, whether they stream or not."""
    provider = ask()
    for script in ((HELLO,), STREAM, (HELLO,), STREAM):
        server.then(*script)
    for streaming in (False, True, False, True):
        await (streamed(provider, HI) if streaming else provider.complete(HI))
    assert server.connections == 1


async def test_a_stream_is_given_out_as_it_comes(server: VendorServer, ask: Asking) -> None:
    """Each text comes when it was sent, and the last chunk has the whole reply."""
    gate = asyncio.Event()
    server.then(*STREAM[:2], Gate(gate), *STREAM[2:])
    chunks = ask(pricing={"input_cost_per_1k": 0.001, "output_cost_per_1k": 0.002}).stream(HI)
    first = await anext(chunks)
    gate.set()
    rest = [entry async for entry in chunks]
    reply = rest[-1].reply
    assert (first.text, "".join(entry.text for entry in rest), reply is not None) == ("Hel", "lo", True)
    assert reply is not None
    assert reply.text == "Hello"
    assert reply.cost_usd == pytest.approx(0.005)


async def test_the_first_text_is_timed_and_reasoning_is_none(server: VendorServer, ask: Asking) -> None:
    """The time to the first text is that of text, not of reasoning; the latency ends with the last event."""
    reasoning = {"choices": [{"delta": {"reasoning_content": "Hm"}}]}
    server.then(stream_head(), chunk(event(reasoning)), Pause(0.4), *(step for step in STREAM[1:3]), Pause(0.4), *STREAM[3:])
    reply = await streamed(ask(), HI)
    [seen] = server.requests
    sent_ms = [(at - seen.at) * 1000 for at in seen.sent_at]
    assert reply.ttft_ms == pytest.approx(sent_ms[2], abs=200)
    assert reply.latency_ms == pytest.approx(sent_ms[4], abs=200)


async def test_what_fails_for_a_moment_is_asked_again(server: VendorServer, ask: Asking) -> None:
    """A request that failed is made again, and the reply says so; its time is that of the attempt that was answered."""
    server.then(Pause(1.0), OVERLOADED)
    server.then(Cut())
    server.then(HELLO)
    reply = await ask(patience_s=20.0).complete(HI)
    assert [(attempt.kind, attempt.latency_ms >= 1000) for attempt in reply.attempts] == [("unavailable", True), ("unavailable", False)]
    assert reply.latency_ms is not None
    assert reply.latency_ms < 1000


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
async def test_calls_that_are_missing_are_asked_for_again(server: VendorServer, ask: Asking, *, streaming: bool) -> None:
    """A reply that ends to call tools, with no call and no text, has lost its calls on the way: it is no empty answer."""
    lost = {"choices": [{"message": {"content": ""}, "delta": {}, "finish_reason": "tool_calls"}]}
    server.then(*(sse(lost, "[DONE]") if streaming else (answer(lost),)))
    server.then(*(STREAM if streaming else (HELLO,)))
    provider = ask(patience_s=20.0)
    reply = await (streamed(provider, HI) if streaming else provider.complete(HI))
    assert (reply.text, [attempt.kind for attempt in reply.attempts]) == ("Hello", ["protocol"])


async def test_a_stream_is_asked_for_again_before_its_first_text(server: VendorServer, ask: Asking) -> None:
    """A stream that broke off before it said anything is asked for again."""
    server.then(stream_head(), chunk(event(delta(""))), Cut())
    server.then(*STREAM)
    reply = await streamed(ask(patience_s=20.0), HI)
    assert (reply.text, len(reply.attempts)) == ("Hello", 1)


@pytest.mark.parametrize(("retry", "asked"), [({"enabled": False}, 1), ({"max_attempts": 2}, 2)], ids=["never", "twice"])
async def test_how_often_a_stream_is_asked_for_can_be_said(server: VendorServer, ask: Asking, retry: dict[str, object], asked: int) -> None:
    """`stream_retry` says how many attempts a stream has that breaks off."""
    server.then(stream_head(), Cut())
    with pytest.raises(ProviderError):
        await streamed(ask(patience_s=60.0, stream_retry=retry), HI)
    assert len(server.requests) == asked


async def test_text_that_was_given_out_is_not_asked_for_again(server: VendorServer, ask: Asking) -> None:
    """After its first text a stream that breaks off is an error: nobody could take the text back."""
    server.then(stream_head(), chunk(event(delta("Hel"))), Cut())
    with pytest.raises(ProviderError) as caught:
        await streamed(ask(patience_s=60.0), HI)
    assert (caught.value.kind, caught.value.transient, len(server.requests)) == ("unavailable", True, 1)


ENDS = [
    pytest.param((Close(),), "Hello", id="closed after the last word, without the last chunk"),
    pytest.param((Cut(),), "Hello", id="cut after the last word"),
    pytest.param((Pause(0.0), Hang()), "Hello", id="no end after the last word"),
]


@pytest.mark.parametrize(("end", "text"), ENDS)
async def test_a_stream_that_said_all_is_a_reply_however_it_ends(server: VendorServer, ask: Asking, end: tuple[object, ...], text: str) -> None:
    """After a finish reason nothing more is needed: the reply stands, and its time ends with the last event."""
    server.then(stream_head(), chunk(event(delta("Hello", "stop"))), *end)  # type: ignore[arg-type]
    reply = await streamed(ask(stream_idle_timeout="2s"), HI)
    assert reply.text == text
    assert reply.latency_ms is not None
    assert reply.latency_ms < 1500


async def test_a_server_that_does_not_stream(server: VendorServer, ask: Asking) -> None:
    """A server that answers a stream's request with a whole reply is understood."""
    server.then(HELLO)
    [only] = await chunks_of(ask(), HI)
    assert only.reply is not None
    assert only.reply.text == "Hello"


@pytest.mark.parametrize("steps", [(answer({"error": {"message": "x"}}, 400),), sse({"error": {"message": "x", "type": "invalid_request_error"}})])
async def test_errors_of_a_stream(server: VendorServer, ask: Asking, steps: tuple[bytes, ...]) -> None:
    """A stream may be refused by its status, or by its first event."""
    server.then(*steps)
    with pytest.raises(ProviderError) as caught:
        await streamed(ask(), HI)
    assert (caught.value.kind, caught.value.transient) == ("invalid_request", False)


async def test_a_stream_that_is_left_early_ends_its_request(server: VendorServer, ask: Asking) -> None:
    """Who closes a stream closes its connection, and the turn is free again."""
    provider = ask(rate_limit={"concurrency": 1}, stream_max_concurrent=1)
    server.then(*STREAM[:2], Hang())
    chunks = provider.stream(HI)
    await anext(chunks)
    await chunks.aclose()
    server.then(*STREAM)
    server._scripts.pop(0)
    assert (await streamed(provider, HI)).text == "Hello"


async def test_streams_at_once_have_a_limit(server: VendorServer, ask: Asking) -> None:
    """`stream_max_concurrent` holds streams back, and nothing else."""
    gate = asyncio.Event()
    provider = ask(stream_max_concurrent=1)
    server.answering = lambda seen: (*STREAM[:2], Gate(gate), *STREAM[2:]) if seen.json.get("stream") else (HELLO,)
    first = provider.stream(HI)
    await anext(first)
    second = asyncio.create_task(streamed(provider, HI))
    assert (await provider.complete(HI)).text == "Hello"
    assert len(server.requests) == 2
    gate.set()
    assert [entry.text async for entry in first][-1] == ""
    assert (await second).text == "Hello"


@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_a_reply_that_was_cut_says_so(server: VendorServer, ask: Asking, reason: str) -> None:
    """Why a reply ended early stays with its message."""
    server.then(answer({"choices": [{"message": {"content": "Hel"}, "finish_reason": reason}]}))
    assert (await ask().complete(HI)).meta == {"finishReason": reason}


async def test_what_came_is_kept_where_that_is_wanted(server: VendorServer, ask: Asking) -> None:
    """`include_raw_output` keeps the vendor's JSON, and the events of a stream."""
    provider = ask(include_raw_output=True)
    server.then(HELLO)
    server.then(*STREAM)
    assert (await provider.complete(HI)).meta["raw"]["choices"][0]["message"] == {"content": "Hello"}
    assert json.loads((await streamed(provider, HI)).meta["raw"][0]) == delta("Hel")


SECRETIVE = [
    pytest.param((answer({"error": {"message": f"Incorrect API key provided: {KEY}. You see", "code": "invalid_api_key"}}, 401),), id="a status"),
    pytest.param(
        (answer({"error": {"message": f"Incorrect API key provided: {KEY[:6]}***{KEY[-4:]}", "code": "invalid_api_key"}}, 401),), id="masked"
    ),
    pytest.param((answer(f"<html>Bearer {KEY}</html>".encode(), 200),), id="no JSON"),
    pytest.param((answer(f"<html>Bearer {KEY}</html>".encode(), 502),), id="a proxy"),
    pytest.param((head(200, {"X-Echo": f"{KEY} " * 1000}), b"{}"), id="headers"),
    pytest.param(sse({"error": {"message": f"no such key: {KEY}"}}), id="an event"),
    pytest.param((answer({}, 302, {"Location": f"http://evil.test/?key={KEY}"}),), id="a redirect"),
]


@pytest.mark.parametrize("steps", SECRETIVE)
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_key_never_shows(server: VendorServer, ask: Asking, steps: tuple[bytes, ...], *, streaming: bool) -> None:
    """Whatever a server says of a key, no error shows it, nor a part of it."""
    server.then(*steps)
    provider = ask(include_raw_output=True)
    with pytest.raises(ProviderError) as caught:
        await (streamed(provider, HI) if streaming else provider.complete(HI))
    shown = f"{caught.value!r} {caught.value} {caught.value.message} {caught.value.__cause__!r} {provider!r} {vars(provider)!r}"
    assert KEY not in shown
    assert KEY[:6] not in shown
    assert KEY[-4:] not in shown
