"""Live tools: where each argument goes, what comes back, and what never does."""

import asyncio
import json
from ipaddress import IPv4Address, ip_network
from typing import Any

import pytest
from aiohttp import web

from engine.permissions import Permissions
from engine.tools.web import MAX_BODY_BYTES, Web, WebError, WebRequest
from foundation.addresses import AddressPolicy
from tests.outside.reaching import Hold, Serve, call, parts_of, results_of

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (64).to_bytes(4, "big") + (32).to_bytes(4, "big") + b"rest"
LOOPBACK = AddressPolicy((ip_network("127.0.0.0/8"),))


async def echo(request: web.Request) -> web.Response:
    """Answer with the request."""
    body = await request.text()
    return web.json_response(
        {"method": request.method, "path": request.raw_path, "headers": dict(request.headers), "body": json.loads(body) if body else None}
    )


def live(url: str, **http: Any) -> dict[str, Any]:
    """Return a live tool."""
    return {"mode": "live", "http": {"url": url} | http}


@pytest.mark.parametrize(
    ("http", "arguments", "path", "body"),
    [
        pytest.param({"method": "GET"}, {"q": "a b", "n": 2.0}, "/echo?q=a+b&n=2", None, id="all arguments of a GET are its query"),
        pytest.param({}, {"q": "x"}, "/echo", {"q": "x"}, id="POST is the default, with a JSON body"),
        pytest.param({"request": {"query_params": ["q"]}}, {"q": "x", "r": 1}, "/echo?q=x", {"r": 1}, id="query parameters leave the body"),
        pytest.param({"request": {"exclude": ["q"]}}, {"q": "x", "r": 1}, "/echo", {"r": 1}, id="excluded arguments go nowhere"),
        pytest.param({"request": {"static_query": {"k": "v"}, "static_body": {"s": 1}}}, {"q": 1}, "/echo?k=v", {"q": 1, "s": 1}, id="static fields"),
        pytest.param({"request": {"body_mapping": "{inner: q}"}}, {"q": 1}, "/echo", {"inner": 1}, id="a mapped body"),
    ],
)
async def test_arguments_go_where_the_file_says(
    hold: Hold, serve: Serve, http: dict[str, Any], arguments: dict[str, Any], path: str, body: Any
) -> None:
    """Each argument goes into the query or the body, once."""
    result = await hold({"t": live(await serve(echo=echo) + "/echo", **http)}, [call("t", **arguments)])
    sent = json.loads(results_of(result)[0])
    assert (sent["path"], sent["body"]) == (path, body)


async def test_addresses_and_headers_take_arguments(hold: Hold, serve: Serve) -> None:
    """Templates take arguments, which then leave the body; an argument can add no path, query or host to an address."""
    url = await serve(echo=echo) + "/echo?id={{.id}}"
    tool = live(url, headers={"X-Who": "{{.who}}"}, request={"header_params": {"X-More": "m-{{.id}}"}})
    sent = json.loads(results_of(await hold({"t": tool}, [call("t", id="a&b=c/d", who="me", rest=1)]))[0])
    assert sent["path"] == "/echo?id=a%26b%3Dc%2Fd"
    assert (sent["headers"]["X-Who"], sent["headers"]["X-More"], sent["body"]) == ("me", "m-a&b=c/d", {"rest": 1})


async def test_missing_argument_of_an_address(hold: Hold) -> None:
    """A call that leaves out what the address takes reaches nobody."""
    result = await hold({"t": live("http://127.0.0.1:1/{{.id}}")}, [call("t")])
    assert results_of(result) == ["Error: the address takes an argument that is missing"]


async def test_secrets_are_in_no_result(hold: Hold, serve: Serve) -> None:
    """A header from the environment is sent, and what an answer repeats of it is made unreadable; so is a redacted field at any depth."""
    tool = live(await serve(echo=echo) + "/echo", headers_from_env=["X-Key=SERVICE_KEY"], redact=["Host"])
    result = await hold({"t": tool}, [call("t")], environment={"SERVICE_KEY": "s3cret-value"})
    headers = json.loads(results_of(result)[0])["headers"]
    assert (headers["X-Key"], headers["Host"]) == ("[REDACTED]", "[REDACTED]")
    assert "s3cret" not in str(result.messages)


@pytest.mark.parametrize(
    ("variable", "why"), [("NOT_THERE", "is not set"), ("ARENA_TOKEN", "is not for bundles to read"), ("REDIS_URL", "is not for bundles to read")]
)
async def test_variables_that_cannot_be_had(hold: Hold, variable: str, why: str) -> None:
    """A variable that is not set, or that is Arena's own, is never sent; the call says which."""
    tool = live("http://127.0.0.1:1/", headers_from_env=[f"X-Key={variable}"])
    result = await hold({"t": tool}, [call("t")], environment={"ARENA_TOKEN": "x", "REDIS_URL": "y"})
    assert results_of(result) == [f"Error: tool 't' cannot be called: variable {variable} of header 'X-Key' {why}"]


async def test_answers_are_mapped_and_checked(hold: Hold, serve: Serve) -> None:
    """A mapping shapes the answer; one that does not fit the output schema is an error that says so."""

    async def places(_: web.Request) -> web.Response:
        return web.json_response({"results": [{"name": "Bern", "population": 1}], "took": 3})

    url = await serve(places=places) + "/places"
    mapped = live(url, method="GET", response={"body_mapping": "results[*].{name: name}"})
    wrong = live(url, method="GET") | {"output_schema": {"type": "array"}}
    result = await hold({"t": mapped, "u": wrong}, [call("t"), call("u")])
    assert results_of(result)[0] == '[{"name":"Bern"}]'
    assert "does not fit the tool's output schema" in results_of(result)[1]


async def test_pictures_are_parts(hold: Hold, serve: Serve) -> None:
    """An accepted picture is a part with its type and size; a text beside it is none."""

    async def picture(_: web.Request) -> web.Response:
        return web.Response(body=PNG, content_type="image/png")

    tool = live(await serve(picture=picture) + "/picture", method="GET", multimodal={"enabled": True, "accept_types": ["image/png"]})
    media = parts_of(await hold({"t": tool}, [call("t")]))[0]["media"]
    assert {key: media[key] for key in ("mimeType", "width", "height", "sizeBytes")} == {
        "mimeType": "image/png",
        "width": 64,
        "height": 32,
        "sizeBytes": len(PNG),
    }


async def test_outages_name_tool_and_address(hold: Hold, serve: Serve) -> None:
    """A refused connection and a bad status are errors that name the tool and the address; the conversation goes on."""

    async def broken(_: web.Request) -> web.Response:
        return web.Response(status=503, text="try later")

    base = await serve(broken=broken)
    result = await hold({"t": live("http://127.0.0.1:1/x"), "u": live(f"{base}/broken", method="GET")}, [call("t"), call("u")])
    refused, bad = results_of(result)
    assert "tool 't' cannot be called: http://127.0.0.1:1/x cannot be reached" in refused
    assert bad == f"Error: tool 'u' cannot be called: GET {base}/broken answered 503 Service Unavailable: try later"
    assert result.messages[-1]["content"] == "done"


@pytest.mark.parametrize("url", ["http://[::1/", "http://h:99999/", "http://user:pw@example.com/", "http://example.com:0/"])
async def test_addresses_that_are_none(url: str) -> None:
    """What is no address, or holds a credential, is refused with the credential left out."""
    client = Web(AddressPolicy())
    with pytest.raises(WebError, match="may not be reached: it") as caught:
        await client.fetch(WebRequest("GET", url))
    assert "pw" not in caught.value.message


async def test_private_addresses_are_refused(hold: Hold, serve: Serve) -> None:
    """Without an operator's word, no private address is reached."""
    result = await hold({"t": live(await serve(echo=echo) + "/echo")}, [call("t")], permissions=Permissions())
    assert "may not be reached: its address is loopback" in results_of(result)[0]


async def test_names_are_judged_by_every_address() -> None:
    """A name with one private address is refused, and the connection goes to what was checked."""
    asked: list[str] = []

    def find(host: str, port: int) -> list[IPv4Address]:
        asked.append(f"{host}:{port}")
        return [IPv4Address("93.184.216.34"), IPv4Address("10.0.0.7")]

    client = Web(AddressPolicy(), find)
    with pytest.raises(WebError, match=r"host 'inside\.example' has address 10\.0\.0\.7, which is private"):
        await client.fetch(WebRequest("GET", "http://inside.example/"))
    await client.close()
    assert asked == ["inside.example:80"]


async def test_a_name_is_resolved_once_and_pinned(serve: Serve) -> None:
    """The connection goes to the address that the one look-up gave."""
    base = await serve(echo=echo)
    asked: list[str] = []

    def find(host: str, _: int) -> list[IPv4Address]:
        asked.append(host)
        return [IPv4Address("127.0.0.1")] if len(asked) == 1 else [IPv4Address("127.0.0.2")]

    client = Web(LOOPBACK, find)
    answer = await client.fetch(WebRequest("GET", base.replace("127.0.0.1", "svc.example") + "/echo"))
    await client.close()
    assert answer.is_good
    assert asked == ["svc.example"]


async def test_redirects_are_new_addresses(serve: Serve) -> None:
    """A redirect to a private address is refused, headers do not follow to another origin, and a chain ends after three."""

    async def around(request: web.Request) -> web.Response:
        raise web.HTTPFound(request.path)

    async def away(_: web.Request) -> web.Response:
        raise web.HTTPFound("http://169.254.169.254/latest")

    async def next_door(_: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect(other + "/echo")

    other = await serve(echo=echo)
    base = await serve(around=around, away=away, next_door=next_door)
    client = Web(LOOPBACK)
    with pytest.raises(WebError, match="redirects more than 3 times"):
        await client.fetch(WebRequest("GET", f"{base}/around"))
    with pytest.raises(WebError, match=r"169\.254\.169\.254/latest may not be reached: its address is a cloud's metadata service"):
        await client.fetch(WebRequest("GET", f"{base}/away"))
    moved = json.loads((await client.fetch(WebRequest("POST", f"{base}/next_door", {"Authorization": "Bearer t"}, b'{"a":1}'))).body)
    await client.close()
    assert (moved["method"], moved["body"]) == ("POST", {"a": 1})
    assert "Authorization" not in moved["headers"]


async def test_bodies_and_time_are_limited(serve: Serve) -> None:
    """An endless body and a silent server end with an error that names the address."""

    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)

    async def silent(_: web.Request) -> web.Response:
        await never.wait()
        return web.Response()

    never = asyncio.Event()
    base = await serve(flood=flood, silent=silent)
    client = Web(LOOPBACK)
    with pytest.raises(WebError, match=f"flood answered with more than {MAX_BODY_BYTES >> 10} KiB"):
        await client.fetch(WebRequest("GET", f"{base}/flood"))
    with pytest.raises(WebError, match=r"silent did not answer within 0\.05 s"):
        await client.fetch(WebRequest("GET", f"{base}/silent", timeout_s=0.05))
    never.set()
    await client.close()
