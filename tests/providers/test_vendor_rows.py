"""Providers of Anthropic and Google, of their clouds, and of roles that embed and label, asked over HTTP at their rows of the table."""

import hashlib
import hmac
from typing import Any
from urllib.parse import quote

import pytest

from engine.errors import CredentialMissing, FeatureNotSupported, ProviderError
from engine.items import Usage
from engine.providers.credentials import Keys
from engine.providers.messages import Message
from engine.providers.port import Request
from engine.providers.specs import ROWS, SERVING_ROWS, is_built, service_of
from tests.providers.conftest import KEY, Asking, streamed
from tests.providers.vendor_server import LAST_CHUNK, Close, Seen, VendorServer, answer, chunk, sse, stream_head
from tests.providers.vendor_streams import CLAUDE, GEMINI, exception, framed, gemini

HI = Request([Message("user", "hi")])
CLAUDE_REPLY = {
    "type": "message",
    "model": "claude-haiku-4-5",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
GEMINI_REPLY = gemini({"text": "Hello"}, reason="STOP", usageMetadata={"promptTokenCount": 3, "candidatesTokenCount": 2})
AT_BEDROCK = {
    "type": "claude",
    "model": "anthropic.claude-haiku-4-5-20251001-v1:0",
    "platform": {"type": "bedrock", "region": "eu-central-1"},
    "credential": None,
    "auth": {"type": "accessKey", "variables": {"AWS_ACCESS_KEY_ID": "KEY", "AWS_SECRET_ACCESS_KEY": "KEY"}},
}
AT_VERTEX = {"platform": {"type": "vertex", "region": "europe-west1", "project": "p-1"}}


@pytest.mark.parametrize(
    ("spec", "path", "proof", "reply"),
    [
        pytest.param({"type": "claude"}, "/v1/messages", ("x-api-key", KEY), CLAUDE_REPLY, id="claude"),
        pytest.param({"type": "gemini"}, "/v1beta/models/m:generateContent", ("x-goog-api-key", KEY), GEMINI_REPLY, id="gemini"),
        pytest.param({"type": "claude", **AT_VERTEX}, "/m:rawPredict", ("Authorization", f"Bearer {KEY}"), CLAUDE_REPLY, id="claude on vertex"),
        pytest.param(
            {"type": "claude", "platform": {"type": "bedrock", "region": "eu-central-1"}},
            "/model/m/invoke",
            ("Authorization", f"Bearer {KEY}"),
            CLAUDE_REPLY,
            id="claude on bedrock with its API key",
        ),
    ],
)
async def test_where_a_model_is_asked_and_with_what(
    server: VendorServer, ask: Asking, spec: dict[str, Any], path: str, proof: tuple[str, str], reply: Any
) -> None:
    """Each row has its path under the base URL and its header for the key."""
    server.then(answer(reply))
    bare = {"base_url": server.url} | ({} if spec["type"] == "gemini" or "platform" in spec else {"base_url": f"{server.url}/v1"})
    found = await ask(**(bare | spec)).complete(HI)
    [seen] = server.requests
    assert (seen.path, seen.headers[proof[0]]) == (path, proof[1])
    assert (found.text, found.usage) == ("Hello", Usage(3, 2))


@pytest.mark.parametrize("tail", ["", "/", "/anthropic/", "/anthropic/v1"])
async def test_claude_on_azure(server: VendorServer, ask: Asking, tail: str) -> None:
    """Azure serves Anthropic's own protocol under a path of the resource, with a key of its own."""
    server.then(answer(CLAUDE_REPLY))
    platform = {"type": "azure", "endpoint": f"{server.url}{tail}"}
    assert (await ask(type="claude", base_url="", platform=platform).complete(HI)).text == "Hello"
    [seen] = server.requests
    assert (seen.path, seen.headers["x-api-key"]) == ("/anthropic/v1/messages", KEY)


async def test_gemini_on_vertex(server: VendorServer, ask: Asking) -> None:
    """An endpoint stands in for the host alone: project, region and publisher are in the path."""
    server.then(answer(GEMINI_REPLY))
    platform = {"type": "vertex", "region": "europe-west1", "project": "p-1", "endpoint": server.url}
    assert (await ask(type="gemini", base_url="", platform=platform).complete(HI)).text == "Hello"
    [seen] = server.requests
    assert seen.path == "/v1beta1/projects/p-1/locations/europe-west1/publishers/google/models/m:generateContent"


def signature(seen: Seen, secret: str) -> str:
    """Return what Signature Version 4 says of a request as it arrived (AWS, Signature Version 4, "Create a signed request")."""
    terms = dict(part.strip().split("=", 1) for part in seen.headers["Authorization"].removeprefix("AWS4-HMAC-SHA256 ").split(","))
    _, day, region, service, _ = terms["Credential"].split("/")
    names = terms["SignedHeaders"].split(";")
    canonical = "\n".join(
        (
            seen.method,
            quote(seen.path, safe="/~"),
            "",
            *(f"{name}:{' '.join(seen.headers[name].split())}" for name in names),
            "",
            terms["SignedHeaders"],
            hashlib.sha256(seen.body).hexdigest(),
        )
    )
    scope = f"{day}/{region}/{service}/aws4_request"
    text = "\n".join(("AWS4-HMAC-SHA256", seen.headers["X-Amz-Date"], scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


async def test_bedrock_requests_are_signed_as_they_arrive(server: VendorServer, ask: Asking) -> None:
    """The signature is of the path, the host and the body that the service sees; the access key's secret never leaves."""
    pytest.importorskip("botocore")
    server.then(answer(CLAUDE_REPLY))
    assert (await ask(**AT_BEDROCK, base_url=server.url).complete(Request([Message("user", "Grüße")]))).text == "Hello"
    [seen] = server.requests
    assert seen.path == "/model/anthropic.claude-haiku-4-5-20251001-v1%3A0/invoke"
    assert "/eu-central-1/bedrock/aws4_request" in seen.headers["Authorization"]
    assert f"Signature={signature(seen, KEY)}" in seen.headers["Authorization"]


@pytest.mark.parametrize("cut", [1, 50, 10_000], ids=["byte by byte", "in pieces", "at once"])
async def test_bedrock_streams(server: VendorServer, ask: Asking, cut: int) -> None:
    """A stream on Bedrock comes in the frames of AWS, however they are cut."""
    pytest.importorskip("botocore")
    data = framed(CLAUDE)
    server.then(stream_head(kind="application/vnd.amazon.eventstream"), *(chunk(data[i : i + cut]) for i in range(0, len(data), cut)), LAST_CHUNK)
    reply = await streamed(ask(**AT_BEDROCK, base_url=server.url), HI)
    assert (reply.text, reply.usage, reply.ttft_ms is not None) == ("Grüße, world\n!", Usage(37, 15, 8), True)


async def test_bedrock_exceptions_inside_a_stream(server: VendorServer, ask: Asking) -> None:
    """An exception midway is an error of its kind, never the text so far."""
    pytest.importorskip("botocore")
    data = framed(CLAUDE[:4]) + exception("throttlingException", "slow down")
    server.then(stream_head(kind="application/vnd.amazon.eventstream"), chunk(data), LAST_CHUNK)
    with pytest.raises(ProviderError, match="slow down") as said:
        await streamed(ask(**AT_BEDROCK, base_url=server.url), HI)
    assert (said.value.kind, said.value.transient) == ("rate_limit", True)


@pytest.mark.parametrize(
    ("kind", "events", "usage"), [("claude", [(e["type"], e) for e in CLAUDE], Usage(37, 15, 8)), ("gemini", GEMINI, Usage(14, 12, 3, 7))]
)
async def test_streams_and_streams_that_break_off(server: VendorServer, ask: Asking, kind: str, events: Any, usage: Usage) -> None:
    """A stream is a reply with the time of its first text; one that the server leaves is an error that may pass."""
    server.then(*sse(*events))
    server.then(*sse(*events[:2], last=(Close(),)))
    provider = ask(type=kind, base_url=f"{server.url}/v1")
    reply = await streamed(provider, HI)
    assert (reply.text, reply.usage, reply.ttft_ms is not None) == ("Grüße, world\n!", usage, True)
    with pytest.raises(ProviderError) as broken:
        await streamed(provider, HI)
    assert broken.value.transient


EMBEDDED = {"data": [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1.5, 0]}], "usage": {"prompt_tokens": 4}}


@pytest.mark.parametrize(
    ("spec", "path", "body", "reply"),
    [
        pytest.param(
            {"type": "openai", "additional_config": {"dimensions": 2}},
            "/v1/embeddings",
            {"model": "m", "input": ["a", "b"], "dimensions": 2},
            EMBEDDED,
            id="openai",
        ),
        pytest.param({"type": "ollama"}, "/v1/embeddings", {"model": "m", "input": ["a", "b"]}, EMBEDDED, id="ollama"),
        pytest.param(
            {"type": "voyageai", "additional_config": {"dimensions": 2, "input_type": "document"}},
            "/v1/embeddings",
            {"model": "m", "input": ["a", "b"], "output_dimension": 2, "input_type": "document"},
            EMBEDDED | {"usage": {"total_tokens": 4}},
            id="voyageai",
        ),
        pytest.param(
            {"type": "gemini", "additional_config": {"dimensions": 2, "input_type": "SEMANTIC_SIMILARITY"}},
            "/v1beta/models/m:batchEmbedContents",
            {
                "requests": [
                    {
                        "model": "models/m",
                        "content": {"parts": [{"text": text}]},
                        "outputDimensionality": 2,
                        "taskType": "SEMANTIC_SIMILARITY",
                    }
                    for text in "ab"
                ]
            },
            {"embeddings": [{"values": [1.5, 0]}, {"values": [0, 1]}], "usageMetadata": {"promptTokenCount": 4}},
            id="gemini",
        ),
    ],
)
async def test_embeddings(server: VendorServer, ask: Asking, spec: dict[str, Any], path: str, body: Any, reply: Any) -> None:
    """Each vendor's embeddings come back in the order of their texts, counted."""
    server.then(answer(reply))
    found = await ask(**{"role": "embedding", "base_url": server.url} | spec).complete(Request([Message("user", "a"), Message("user", "b")]))
    assert (server.requests[0].path, server.requests[0].json) == (path, body)
    assert (found.meta["embeddings"], found.usage) == ([[1.5, 0.0], [0.0, 1.0]], Usage(4))


@pytest.mark.parametrize(
    ("message", "inputs"),
    [
        pytest.param(Message("user", "nice"), "nice", id="text"),
        pytest.param(Message("user", parts=[{"type": "image", "media": {"mimeType": "image/png", "data": "AAAA"}}]), "AAAA", id="a picture"),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
async def test_labels(server: VendorServer, ask: Asking, message: Message, inputs: str, nested: bool) -> None:  # noqa: FBT001 - a table's column
    """All labels are asked for and come back with their scores, whether the pipeline nests them or not."""
    scores = [{"label": "toxic", "score": 0.02}, {"label": "fine", "score": 0.98}]
    server.then(answer([scores] if nested else scores))
    found = await ask(type="huggingface", role="inference", model="org/a model", base_url=server.url).complete(Request([message]))
    assert (server.requests[0].path, server.requests[0].json["inputs"]) == ("/org/a%20model", inputs)
    assert found.meta["labels"] == {"toxic": 0.02, "fine": 0.98}


@pytest.mark.parametrize(
    ("spec", "reply"),
    [
        pytest.param({"type": "openai", "role": "embedding"}, {"data": "x"}, id="no data"),
        pytest.param({"type": "openai", "role": "embedding"}, {"data": [{"index": 0, "embedding": ["x"]}]}, id="no numbers"),
        pytest.param({"type": "openai", "role": "embedding"}, {"data": [{"index": 1, "embedding": [1]}]}, id="an index beyond"),
        pytest.param({"type": "openai", "role": "embedding"}, {"data": [{"index": 0, "embedding": [1e999]}]}, id="no finite number"),
        pytest.param({"type": "gemini", "role": "embedding"}, {"embeddings": [{}]}, id="no values"),
        pytest.param({"type": "huggingface", "role": "inference"}, [], id="no labels"),
        pytest.param({"type": "huggingface", "role": "inference"}, [{"label": "x", "score": 2}], id="a score beyond 1"),
        pytest.param({"type": "huggingface", "role": "inference"}, {"label": "x"}, id="no list"),
    ],
)
async def test_answers_of_another_shape_are_errors(server: VendorServer, ask: Asking, spec: dict[str, Any], reply: Any) -> None:
    """What is no embedding and no score is an error, never a likeness of 0."""
    server.then(answer(reply))
    with pytest.raises(ProviderError) as unreadable:
        await ask(**spec, base_url=server.url).complete(HI)
    assert (unreadable.value.kind, unreadable.value.transient) == ("protocol", True)


async def test_a_model_that_is_being_loaded_says_how_long_it_takes(server: VendorServer, ask: Asking) -> None:
    """Hugging Face loads models when they are asked for; its own words say when to come again."""
    server.then(answer({"error": "Model m is currently loading", "estimated_time": 20.5}, 503))
    with pytest.raises(ProviderError, match="currently loading") as loading:
        await ask(type="huggingface", role="inference", base_url=server.url).complete(HI)
    assert (loading.value.transient, loading.value.retry_after_s) == (True, 20.5)


@pytest.mark.parametrize(
    ("spec", "built"),
    [
        *(pytest.param({"type": kind, "platform": {"type": platform}}, True, id=f"{kind} on {platform or 'its own'}") for kind, platform in ROWS),
        *(pytest.param({"type": kind, "role": role}, True, id=f"{kind} {role}") for role, kind in SERVING_ROWS),
        pytest.param({"type": "openai", "role": "tts"}, False, id="speech"),
        pytest.param({"type": "openai", "role": "stt"}, False, id="transcription"),
        pytest.param({"type": "imagen", "role": "image"}, False, id="pictures"),
        pytest.param({"type": "cartesia", "role": "tts"}, False, id="cartesia"),
        pytest.param({"type": "gemini", "platform": {"type": "bedrock"}}, False, id="gemini on bedrock"),
        pytest.param({"type": "gemini", "role": "embedding", "platform": {"type": "vertex"}}, False, id="embeddings on vertex"),
    ],
)
def test_what_is_built(spec: dict[str, Any], built: bool) -> None:  # noqa: FBT001 - a table's column
    """A type, a platform and a role are built together or not at all."""
    assert is_built(spec) is built
    if not built:
        with pytest.raises(FeatureNotSupported, match="is not built"):
            service_of(spec, Keys())


@pytest.mark.parametrize(
    ("platform", "words"),
    [
        pytest.param({"type": "vertex", "region": "europe-west1"}, "names no project", id="no project"),
        pytest.param({"type": "vertex", "project": "p"}, "names no region", id="no region"),
        pytest.param({"type": "vertex", "project": "p", "region": "evil.example/"}, "'evil.example/' is no region", id="a host for a region"),
        pytest.param({"type": "bedrock"}, "names no region", id="no region on bedrock"),
        pytest.param({"type": "vertex", "project": "p", "region": "us", "endpoint": "https://evil.example"}, "no host of vertex", id="a host"),
        pytest.param({"type": "azure"}, "names no endpoint", id="no endpoint"),
        pytest.param({"type": "azure", "endpoint": "https://azure.com.evil.example"}, "no host of azure", id="a host on azure"),
        pytest.param({"type": "bedrock", "region": "us-east-1", "endpoint": "https://amazonaws.com.evil.example"}, "no host of bedrock", id="a tail"),
        pytest.param(
            {"type": "vertex", "project": "p", "region": "us", "endpoint": "http://aiplatform.googleapis.com"}, "no host of vertex", id="no TLS"
        ),
        *(
            pytest.param({"type": kind, "project": "p", "region": "us-east-1", "endpoint": f"https://{host}"}, f"no host of {kind}", id=host)
            for kind, host in (
                ("azure", "mine.eastus.cloudapp.azure.com"),
                ("bedrock", "mine.execute-api.us-east-1.amazonaws.com"),
                ("bedrock", "bedrock-runtime.s3.amazonaws.com"),
                ("vertex", "storage.googleapis.com"),
            )
        ),
    ],
)
def test_a_bundle_sends_no_proof_elsewhere(platform: dict[str, Any], words: str) -> None:
    """Who pushed a bundle may not choose who gets our token, by an endpoint or by a region that is none."""
    with pytest.raises(FeatureNotSupported, match=words):
        service_of({"type": "claude", "model": "m", "platform": platform}, Keys())


@pytest.mark.parametrize(
    ("region", "url"),
    [
        ("europe-west1", "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/europe-west1/publishers/anthropic/models"),
        ("global", "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/anthropic/models"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/publishers/anthropic/models"),
    ],
)
def test_hosts_of_regions(region: str, url: str) -> None:
    """A region has a host of its own, a multi-region another, and the whole world a third."""
    spec = {"type": "claude", "platform": {"type": "vertex", "project": "p", "region": region}, "credential": {"credential_env": "TOKEN"}}
    assert service_of(spec, Keys({"TOKEN": "t"})).base_url == url


def test_a_missing_key_is_named() -> None:
    """Without a key nothing is built: the message names the variables."""
    with pytest.raises(CredentialMissing, match="ANTHROPIC_API_KEY or CLAUDE_API_KEY is not set"):
        service_of({"id": "c", "type": "claude", "model": "m"}, Keys())
