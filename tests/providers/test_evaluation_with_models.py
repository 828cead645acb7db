"""`arena eval` against models on loopback: two that are tested, one of them streamed, and a judge."""

import asyncio
import json
from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.bundle.problems import Severity
from engine.providers.addresses import refused_addresses
from engine.validate import validate_bundle
from foundation.addresses import AddressPolicy
from tests.e2e.installation import ARENA, Done, clean_environment, run_command
from tests.providers.vendor_server import Seen, Step, VendorServer, answer, sse

KEYS = {"FIRST_KEY": "sk-first-111111", "SECOND_KEY": "sk-second-222222", "JUDGE_KEY": "sk-judge-333333"}
USAGE = {"prompt_tokens": 1000, "completion_tokens": 500}


def manifest(folder: Path, kind: str, name: str, spec: dict[str, Any]) -> dict[str, str]:
    """Write a manifest, and return a reference to it."""
    file = f"{name}.{kind.lower()}.yaml"
    content = {"apiVersion": "promptkit.altairalabs.ai/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    (folder / file).write_text(yaml.safe_dump(content))
    return {"file": file}


def write_bundle(folder: Path, url: str) -> None:
    """Write a bundle of two scenarios, of which one streams, two models and a judge."""
    prices = {"input_cost_per_1k": 0.001, "output_cost_per_1k": 0.002}
    folder.mkdir()

    def model(name: str, kind: str, key: str, **more: Any) -> dict[str, str]:
        spec = {"id": name, "type": kind, "model": f"{name}-model", "base_url": url, "credential": {"credential_env": key}, **more}
        return manifest(folder, "Provider", name, spec)

    checks = [{"type": "llm_judge", "params": {"criteria": "It greets.", "min_score": 0.5}}, {"type": "contains", "params": {"patterns": ["Hello"]}}]
    turns = [{"role": "user", "content": "Hi", "assertions": checks}]
    scenarios = [
        manifest(folder, "Scenario", name, {"id": name, "task_type": "chat", "description": "d", "streaming": streams, "turns": turns})
        for name, streams in (("whole", False), ("streamed", True))
    ]
    prompt = manifest(folder, "PromptConfig", "chat", {"task_type": "chat", "version": "v1.0.0", "description": "d", "system_template": "Be kind."})
    arena = {
        "prompt_configs": [{"id": "chat", **prompt}],
        "providers": [
            model("first", "openai", "FIRST_KEY", pricing=prices),
            model("second", "vllm", "SECOND_KEY", pricing=prices, headers={"X-Team": "eval"}),
            {**model("judge", "openai", "JUDGE_KEY", pricing=prices), "group": "judge"},
        ],
        "judges": [{"name": "strict", "provider": "judge"}],
        "scenarios": scenarios,
        "defaults": {"temperature": 0.5, "max_tokens": 50},
    }
    manifest(folder, "Arena", "config", arena)


def play(seen: Seen) -> Sequence[Step]:
    """Answer as the model that is asked for."""
    model = seen.json["model"]
    text = json.dumps({"passed": True, "score": 1.0, "reasoning": "It does."}) if model == "judge-model" else f"Hello from {model}"
    if not seen.json.get("stream"):
        return (answer({"model": model, "choices": [{"message": {"content": text}, "finish_reason": "stop"}], "usage": USAGE}),)
    pieces = [{"model": model, "choices": [{"delta": {"content": word}}]} for word in (text[:5], text[5:])]
    return sse(*pieces, {"choices": [{"delta": {}, "finish_reason": "stop"}]}, {"choices": [], "usage": USAGE}, "[DONE]")


async def evaluate(folder: Path, *words: str, **environment: str) -> Done:
    """Run `arena eval` in a process of its own, whose environment is `environment`."""
    command = [*ARENA, "eval", str(folder / "bundle"), "-o", "json", *words]
    return await asyncio.to_thread(run_command, command, environment=clean_environment(folder, **environment), cwd=folder)


@pytest.fixture
def bundle(server: VendorServer, tmp_path: Path) -> Path:
    """Write the bundle, and let the server play its models; returns the folder that it is in."""
    write_bundle(tmp_path / "bundle", f"{server.url}/v1")
    server.answering = play
    return tmp_path


async def test_two_models_and_a_judge(server: VendorServer, bundle: Path) -> None:
    """Every item is asked, streamed where its scenario says so, judged, measured and priced; each key goes to its own model; no key shows."""
    done = await evaluate(bundle, "--allow-network", "127.0.0.1/32", **KEYS)
    assert (done.code, done.err) == (0, "")
    items = {(item["scenario"], item["provider"]): item for item in json.loads(done.out)["items"]}
    assert sorted(items) == [("streamed", "first"), ("streamed", "second"), ("whole", "first"), ("whole", "second")]
    assert {item["verdict"] for item in items.values()} == {"pass"}
    assert [(key, item.get("ttftMs") is not None) for key, item in sorted(items.items())] == [(key, key[0] == "streamed") for key in sorted(items)]
    assert {(item["costUsd"], item["judges"]["costUsd"], item["usage"]["inputTokens"]) for item in items.values()} == {(0.004, 0.002, 1000)}
    assert {(seen.json["model"], seen.headers["Authorization"]) for seen in server.requests} == {
        ("first-model", "Bearer sk-first-111111"),
        ("second-model", "Bearer sk-second-222222"),
        ("judge-model", "Bearer sk-judge-333333"),
    }
    assert {seen.headers.get("X-Team") for seen in server.requests if seen.json["model"] == "second-model"} == {"eval"}
    assert {seen.json["temperature"] for seen in server.requests if seen.json["model"] != "judge-model"} == {0.5}
    assert not [key for key in KEYS.values() if key in done.out + done.err]


async def test_a_missing_key_fails_by_name_before_anything_is_asked(server: VendorServer, bundle: Path) -> None:
    """Each key that is not there is named, with its provider; nothing was sent."""
    done = await evaluate(bundle, "--allow-network", "127.0.0.1/32", FIRST_KEY="k")
    assert (done.code, done.out, server.requests) == (2, "", [])
    assert "cannot ask provider 'judge': variable JUDGE_KEY is not set" in done.err
    assert "cannot ask provider 'second': variable SECOND_KEY is not set" in done.err
    assert "Traceback" not in done.err


async def test_a_private_address_is_the_operators_to_allow(server: VendorServer, bundle: Path) -> None:
    """A bundle's models on a private address are refused by name before the first item, with what would allow it."""
    done = await evaluate(bundle, **KEYS)
    assert (done.code, done.out, server.requests) == (2, "", [])
    address = f"{server.url}/v1"
    refused = [f"cannot ask provider '{name}': '{address}' may not be reached: its address is loopback" for name in ("first", "judge", "second")]
    assert done.err == f"error: {chr(10).join(refused)}\nhint: an operator may allow it: --allow-network 127.0.0.1/32\n"


def test_validation_warns_of_a_private_address(bundle: Path) -> None:
    """Whoever runs it may allow it, so it is no error; the warning stands at the provider's file."""
    problems = [problem for problem in validate_bundle(bundle / "bundle") if "may not be reached" in problem.message]
    assert [(problem.severity, problem.file) for problem in problems] == [
        (Severity.WARNING, f"{name}.provider.yaml") for name in ("first", "judge", "second")
    ]
    assert {problem.hint for problem in problems} == {"an operator may allow it: --allow-network 127.0.0.1/32"}


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        pytest.param({"base_url": "http://10.0.0.7/v1"}, True, id="a bundle's, private"),
        pytest.param({"base_url": "http://[::1]:8000/v1"}, True, id="loopback of IPv6"),
        pytest.param({"base_url": "https://93.184.215.14/v1"}, False, id="public"),
        pytest.param({"base_url": "http://gpu.internal/v1"}, False, id="a name, which is looked at when it is connected to"),
        pytest.param({"base_url": "http://10.0.0.7/v1", "from_job": True}, False, id="a job's own"),
        pytest.param({"base_url": "http://169.254.169.254/v1", "from_job": True}, True, id="a job's, at a metadata service"),
        pytest.param({"type": "ollama"}, False, id="our own default, on this machine"),
        pytest.param({"type": "mock", "base_url": "http://10.0.0.7/v1"}, False, id="a mock, which connects to nothing"),
        pytest.param({"type": "claude", "platform": {"type": "bedrock", "endpoint": "https://10.0.0.7"}}, True, id="a platform's endpoint"),
    ],
)
def test_which_addresses_are_refused(spec: dict[str, Any], *, refused: bool) -> None:
    """An address is judged before anybody is asked, by the rule that the transport keeps to."""
    found = list(refused_addresses({"p": {"type": "openai", **spec}}, AddressPolicy()))
    assert bool(found) is refused
    assert list(refused_addresses({"p": {"type": "openai", **spec}}, AddressPolicy((ip_network("0.0.0.0/0"), ip_network("::/0"))))) == []
