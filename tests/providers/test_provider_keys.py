"""Every key of a provider's file makes a difference to what is asked of its model, or is said to make none."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.bundle.ignored import IGNORED, NOTED
from engine.bundle.model import RequestDefaults
from engine.bundle.provider_reader import PROVIDER_TABLE, is_base_url
from engine.conversation.provider_set import sampling
from engine.errors import BundleInvalid
from engine.providers.credentials import Keys
from engine.providers.limits import limits_of
from engine.providers.messages import Message
from engine.providers.port import Request
from engine.providers.prices import Prices
from engine.providers.remotes import Remotes, manner_of
from engine.providers.specs import is_built
from foundation.addresses import AddressPolicy
from foundation.clock import SystemClock
from tests.providers.vendor_server import VendorServer, answer

BODY = {
    "model": "m",
    "choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 500},
}
FULL: Mapping[str, Any] = {
    "type": "openai",
    "model": "m",
    "base_url": "{server}/v1",
    "from_job": True,
    "defaults": {"temperature": 0.1, "max_tokens": 10},
    "pricing": {"input_cost_per_1k": 0.001, "output_cost_per_1k": 0.002},
    "credential": {"credential_env": "KEY"},
}
"""A spec that says what most say; `{server}` is the server's address."""

DIFFERENCES: Mapping[str, Any] = {
    "type": {"type": "vllm", "additional_config": {"top_k": 5}},
    "model": {"model": "other"},
    "base_url": {"base_url": "{server}/v2"},
    "headers": {"headers": {"X-Team": "eval"}},
    "rate_limit": {"rate_limit": {"rps": 5}},
    "rate_limit.burst": {"rate_limit": {"rps": 5, "burst": 3}},
    "defaults": {"defaults": {"temperature": 0.2, "max_tokens": 10}},
    "defaults.top_p": {"defaults": {"temperature": 0.1, "max_tokens": 10, "top_p": 0.3}},
    "defaults.max_tokens": {"defaults": {"temperature": 0.1, "max_tokens": 11}},
    "pricing": {"pricing": {"input_cost_per_1k": 0.002, "output_cost_per_1k": 0.002}},
    "pricing.output_cost_per_1k": {"pricing": {"input_cost_per_1k": 0.001, "output_cost_per_1k": 0.003}},
    "include_raw_output": {"include_raw_output": True},
    "additional_config": {"additional_config": {"reasoning_effort": "low"}},
    "additional_config.parallel_tool_calls": {"additional_config": {"parallel_tool_calls": False}},
    "additional_config.stream": {"additional_config": {"stream": True}},
    "additional_config.extra_body": {"additional_config": {"extra_body": {"user": "u"}}},
    "credential": {"credential": {"credential_env": "OTHER"}},
    "credential.credential_file": {"credential": {"credential_file": "key.txt"}},
    "platform": {"platform": {"type": "azure", "endpoint": "{server}"}},
    "capabilities": {"capabilities": ["text"]},
    "unsupported_params": {"unsupported_params": ["temperature"]},
    "request_timeout": {"request_timeout": "5s"},
    "stream_idle_timeout": {"stream_idle_timeout": "1m30s"},
    "stream_retry": {"stream_retry": {"enabled": False}},
    "stream_retry.max_attempts": {"stream_retry": {"max_attempts": 5}},
    "stream_max_concurrent": {"stream_max_concurrent": 3},
    "http_transport": {"http_transport": {"max_conns_per_host": 4}},
    "http_transport.idle_conn_timeout": {"http_transport": {"idle_conn_timeout": "9s"}},
}
"""For each key (and for keys within), what is added to the spec to see a difference."""

ELSEWHERE = {"id": "it is metadata.name", "role": "another role is another service"}


def _filled(spec: Mapping[str, Any], server: VendorServer) -> dict[str, Any]:
    def fill(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: fill(entry) for key, entry in value.items()}
        return value.replace("{server}", server.url) if isinstance(value, str) else value

    return {key: fill(value) for key, value in spec.items()}


async def observe(server: VendorServer, root: Path, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that a spec shows: what is sent, what comes of the reply, and how its provider is asked."""
    server.then(answer(BODY))
    remotes = Remotes(Keys({"KEY": "k", "OTHER": "o"}, root), AddressPolicy(), Prices(), SystemClock(), patience_s=0.0)
    try:
        provider = remotes.build("p", spec)
        schema = {"type": "object"}
        request = Request([Message("user", "Hi")], sampling=sampling(RequestDefaults(), spec), output_schema=schema)
        reply = await provider.complete(request)
    finally:
        await remotes.close()
    seen = server.requests[-1]
    return {
        "path": seen.path,
        "headers": {name: value for name, value in seen.headers.items() if name.lower() != "content-length"},
        "body": seen.json,
        "cost": reply.cost_usd,
        "meta": dict(reply.meta),
        "manner": manner_of(spec),
        "limits": limits_of(spec),
        "reach": remotes._reach(spec),
    }


@pytest.mark.parametrize("key", DIFFERENCES)
async def test_a_key_makes_a_difference(server: VendorServer, tmp_path: Path, key: str) -> None:
    """What is asked, kept or allowed is not the same with a key as without it, or with another value."""
    (tmp_path / "key.txt").write_text("from-a-file\n")
    without = await observe(server, tmp_path, _filled(FULL, server))
    assert await observe(server, tmp_path, _filled({**FULL, **DIFFERENCES[key]}, server)) != without


@pytest.mark.parametrize(("role", "built"), [("llm", True), ("embedding", True), ("image", False), ("tts", False)])
def test_a_role_has_a_service_or_is_refused(role: str, *, built: bool) -> None:
    """A provider of a role that nothing serves is not built as a model that talks."""
    assert is_built({**FULL, "role": role}) is built


def test_every_key_is_here_or_is_said_to_have_no_effect() -> None:
    """There is no key of the format that is read and does nothing."""
    said = {key for table, key in (*IGNORED, *NOTED) if table == PROVIDER_TABLE.name}
    assert PROVIDER_TABLE.keys.keys() == {key for key in DIFFERENCES if "." not in key} | said | ELSEWHERE.keys()


@pytest.mark.parametrize(
    ("variables", "shared"),
    [
        pytest.param(("ARENA_CREDENTIAL_0", "ARENA_CREDENTIAL_0"), True, id="one Provider under two ids"),
        pytest.param(("ARENA_CREDENTIAL_0", "ARENA_CREDENTIAL_1"), False, id="two keys"),
        pytest.param(("KEY", "KEY"), False, id="a variable that anybody may name"),
    ],
)
async def test_limits_are_a_keys(tmp_path: Path, variables: tuple[str, str], *, shared: bool) -> None:
    """A job's Provider that is tested under one id and judges under another keeps to its limits once, not once an id."""
    remotes = Remotes(Keys(dict.fromkeys(variables, "k"), tmp_path), AddressPolicy(), Prices(), SystemClock(), patience_s=0.0)
    specs = [{**FULL, "base_url": "http://llm:1/v1", "credential": {"credential_env": name}} for name in variables]
    tested, judging = (remotes.build(ident, spec) for ident, spec in zip(("a", "b"), specs, strict=True))
    assert (tested._account.limiter is judging._account.limiter) is shared
    await remotes.close()


URLS = [
    ("https://api.openai.com/v1", True),
    ("http://[::1]:8000", True),
    ("api.openai.com", False),
    ("ftp://host/v1", False),
    ("https://user:secret@host/v1", False),
    ("https://host/v1?key=secret", False),
    ("https://host/v1#there", False),
    ("https://host:99999/v1", False),
    ("https://", False),
    ("https://host/\n", False),
]


@pytest.mark.parametrize(("url", "good"), URLS)
def test_addresses(tmp_path: Path, url: str, *, good: bool) -> None:
    """A base URL is one that paths can follow, without secrets in it; a job's is looked at as well."""
    assert is_base_url(url) is good
    remotes = Remotes(Keys(root=tmp_path), AddressPolicy(), Prices(), SystemClock(), patience_s=0.0)
    spec = {"type": "vllm", "model": "m", "base_url": url, "from_job": True}
    if good:
        remotes.build("p", spec)
    else:
        with pytest.raises(BundleInvalid, match="its address is none"):
            remotes.build("p", spec)
