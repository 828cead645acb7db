"""A picture by its address on its way to a model on loopback: fetched once, sent as bytes, and named in the results by its digest."""

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine.bundle import load_bundle
from engine.conversation import ItemRunner
from engine.items import ItemResult, Verdict
from engine.permissions import Permissions
from engine.plan import MockOverride, PlanRequest, WorkerOptions, make_plan
from engine.providers.connections import Connections
from foundation.clock import SystemClock
from tests.providers.test_evaluation_with_models import evaluate, manifest
from tests.providers.vendor_server import Seen, Step, VendorServer, answer

PNG = b"\x89PNG\r\n\x1a\n" + b"a picture"
ALLOWED = ("--allow-network", "127.0.0.1/32")


def write_bundle(folder: Path, url: str) -> None:
    """Write a bundle whose user shows a picture by its address to one model."""
    folder.mkdir()
    spec = {"type": "openai", "model": "m", "base_url": f"{url}/v1", "credential": {"credential_env": "KEY"}}
    prompt = manifest(folder, "PromptConfig", "chat", {"task_type": "chat", "version": "v1", "description": "d", "system_template": "Look."})
    part = {"type": "image", "media": {"url": f"{url}/p.png", "mime_type": "image/png"}}
    turn = {
        "role": "user",
        "parts": [{"type": "text", "text": "What is it?"}, part],
        "assertions": [{"type": "contains", "params": {"patterns": ["a cat"]}}],
    }
    scenario = manifest(folder, "Scenario", "s", {"task_type": "chat", "description": "d", "turns": [turn]})
    arena = {
        "prompt_configs": [{"id": "chat", **prompt}],
        "providers": [manifest(folder, "Provider", "m", spec)],
        "scenarios": [scenario],
        "defaults": {},
    }
    manifest(folder, "Arena", "config", arena)


def playing(picture: Callable[[], bytes]) -> Callable[[Seen], Sequence[Step]]:
    """Answer as a web server that has a picture, and as a model."""

    def play(seen: Seen) -> Sequence[Step]:
        if seen.method == "GET":
            return (picture(),)
        return (answer({"model": "m", "choices": [{"message": {"content": "It is a cat"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}}),)

    return play


def found(content: bytes = PNG) -> bytes:
    """Return an answer with the picture."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: %d\r\n\r\n" % len(content) + content


def gone() -> bytes:
    """Return an answer without it."""
    return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
def bundle(server: VendorServer, tmp_path: Path) -> Path:
    """Write the bundle, and let the server play the internet and the model."""
    write_bundle(tmp_path / "bundle", server.url)
    server.answering = playing(found)
    return tmp_path


async def run_item(folder: Path, *, mocked: bool = False) -> ItemResult:
    """Run the bundle's item in this process."""
    loaded = load_bundle(folder / "bundle")
    options = WorkerOptions(permissions=Permissions(networks=("127.0.0.1/32",)))
    plan = make_plan(loaded, PlanRequest(mock=MockOverride() if mocked else None), options)
    runner = ItemRunner(loaded, plan, SystemClock(), Connections({"KEY": "k"}, media_cache=folder / "cache"))
    try:
        return await runner.run(plan.items[0])
    finally:
        await runner.close()


async def test_a_picture_is_fetched_once_and_sent_as_bytes(server: VendorServer, bundle: Path) -> None:
    """The model gets the bytes, the results have their digest and not themselves, and a second run needs no network for them."""
    words = (*ALLOWED, "--media-cache", str(bundle / "cache"), "--trials", "3")
    done = await evaluate(bundle, *words, KEY="k")
    assert done.code == 0, done.err
    pictures = [seen for seen in server.requests if seen.method == "GET"]
    asked = [seen for seen in server.requests if seen.method == "POST"]
    encoded = base64.b64encode(PNG).decode()
    assert (len(pictures), len(asked)) == (1, 3)
    assert all(f"data:image/png;base64,{encoded}" in seen.body.decode() for seen in asked)
    pin = {"url": f"{server.url}/p.png", "sha256": hashlib.sha256(PNG).hexdigest(), "sizeBytes": len(PNG)}
    assert [item["messages"][-1]["meta"]["media"] for item in json.loads(done.out)["items"]] == [[pin]] * 3
    assert encoded not in done.out

    server.answering = playing(gone)
    assert (await run_item(bundle)).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("picture", "why"),
    [(gone, "answers 404"), (lambda: found(b"<html>sign in"), "it is text/html, not image/png")],
    ids=["gone", "a page"],
)
async def test_a_picture_that_cannot_be_had_is_an_error(server: VendorServer, bundle: Path, picture: Callable[[], bytes], why: str) -> None:
    """Without its picture an item is an error that names the address and what helps, and no model is asked."""
    server.answering = playing(picture)
    result = await run_item(bundle)
    assert result.error is not None
    assert (result.verdict, result.error.kind, result.retryable) == (Verdict.ERROR, "media", False)
    assert f"{server.url}/p.png" in result.error.message
    assert why in result.error.message
    assert not [seen for seen in server.requests if seen.method == "POST"]


async def test_a_mock_needs_no_picture(server: VendorServer, bundle: Path) -> None:
    """Under the mock nothing is fetched and nobody is asked."""
    assert (await run_item(bundle, mocked=True)).verdict is Verdict.FAIL
    assert server.requests == []
