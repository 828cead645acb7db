"""Keys of models: which variable or file counts, what may be named, and what a missing one says."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.errors import CredentialMissing
from engine.providers.credentials import ApiKey, Keys, check, needed, wanted

OPENAI = {"type": "openai", "id": "p"}
ENV = {"credential": {"credential_env": "MINE"}}

NEEDS = [
    pytest.param({"type": "openai"}, ("OPENAI_API_KEY", "OPENAI_TOKEN"), id="openai"),
    pytest.param({"type": "openai", "base_url": "https://api.openai.com/v1"}, ("OPENAI_API_KEY", "OPENAI_TOKEN"), id="openai by its address"),
    pytest.param({"type": "openai", "base_url": "https://eu.api.openai.com/v1"}, ("OPENAI_API_KEY", "OPENAI_TOKEN"), id="openai in a region"),
    pytest.param({"type": "openai", "base_url": "https://api.openai.com.evil.test/v1"}, (), id="a host that looks like it"),
    pytest.param({"type": "openai", "base_url": "http://llm.default:8000/v1"}, (), id="another server"),
    pytest.param({"type": "claude"}, ("ANTHROPIC_API_KEY", "CLAUDE_API_KEY"), id="claude"),
    pytest.param({"type": "gemini"}, ("GEMINI_API_KEY", "GOOGLE_API_KEY"), id="gemini"),
    pytest.param({"type": "huggingface"}, ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"), id="huggingface"),
    pytest.param({"type": "ollama"}, (), id="ollama"),
    pytest.param({"type": "mock"}, (), id="mock"),
    pytest.param({"type": "claude", "platform": {"type": "bedrock"}}, (), id="a cloud signs"),
    pytest.param({"type": "ollama", **ENV}, ("MINE",), id="a variable"),
    pytest.param({"type": "openai", "credential": {"credential_file": "key"}}, (), id="a file"),
    pytest.param({"type": "agent", "endpoint": "a:1", **ENV}, ("MINE",), id="an agent's token"),
]


@pytest.mark.parametrize(("spec", "variables"), NEEDS)
def test_which_variable_is_needed(spec: Mapping[str, Any], variables: tuple[str, ...]) -> None:
    """A vendor's own host needs one of its variables; what a file names instead is needed; nothing else is."""
    assert needed(spec) == variables


FOUND = [
    pytest.param({}, {"OPENAI_API_KEY": "a", "OPENAI_TOKEN": "b"}, "a", id="the first default"),
    pytest.param({}, {"OPENAI_API_KEY": " ", "OPENAI_TOKEN": "b"}, "b", id="the second default"),
    pytest.param(ENV, {"MINE": "c\n", "OPENAI_API_KEY": "a"}, "c", id="a variable instead"),
    pytest.param({"base_url": "http://llm:1/v1"}, {"OPENAI_API_KEY": "a"}, "a", id="a default at another server"),
    pytest.param({"base_url": "http://llm:1/v1"}, {}, "", id="none at another server"),
    pytest.param({"base_url": "http://llm:1/v1", "from_job": True}, {"OPENAI_API_KEY": "a"}, "", id="a job's other server gets no vendor's key"),
    pytest.param({"credential": {"credential_file": "keys/k"}}, {"OPENAI_API_KEY": "a"}, "from-a-file", id="a file of the bundle"),
    pytest.param({"type": "agent", "agent": "my-agent.v2"}, {"AGENT_TOKEN_MY_AGENT_V2": "t"}, "t", id="an agent's token"),
    pytest.param({"type": "agent", "agent": "mine"}, {"AGENT_TOKEN_OTHER": "t"}, "", id="another agent's token"),
]


@pytest.mark.parametrize(("more", "environment", "key"), FOUND)
def test_where_a_key_is_found(tmp_path: Path, more: Mapping[str, Any], environment: Mapping[str, str], key: str) -> None:
    """A file comes before a variable, and that before the type's own ones."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "k").write_text("from-a-file\n")
    assert Keys(environment, tmp_path).of({**OPENAI, **more}) == key


@pytest.mark.parametrize(
    ("more", "environment", "place"),
    [
        pytest.param(ENV, {"MINE": "sk-1"}, "variable MINE", id="the named one"),
        pytest.param({}, {"OPENAI_TOKEN": "sk-1"}, "variable OPENAI_TOKEN", id="the usual one that is set"),
        pytest.param({}, {}, "", id="none"),
        pytest.param({"credential": {"credential_file": "keys/k"}}, {"OPENAI_API_KEY": "sk-1"}, "file 'keys/k'", id="a file"),
        pytest.param(
            {"credential": {"credential_env": "ARENA_CREDENTIAL_0"}}, {"ARENA_CREDENTIAL_0": "sk-1"}, "Secret 'team' (key 'api')", id="ours"
        ),
    ],
)
def test_where_a_key_is_said_to_be(more: Mapping[str, Any], environment: Mapping[str, str], place: str) -> None:
    """Whoever has to correct a key hears of the place that they put it into, which a variable of ours is not."""
    assert Keys(environment, places={"ARENA_CREDENTIAL_0": ("team", "api")}).source({**OPENAI, **more}) == place


REFUSED = [
    pytest.param({}, {}, "variable OPENAI_API_KEY or OPENAI_TOKEN is not set", id="no default"),
    pytest.param(ENV, {"OPENAI_API_KEY": "sk-1"}, "variable MINE is not set", id="the named one"),
    pytest.param(ENV, {"MINE": ""}, "variable MINE is not set", id="empty"),
    pytest.param(ENV, {"MINE": "two words"}, "one word of printable ASCII", id="two words"),
    pytest.param(ENV, {"MINE": "sk-1\r\nHost: evil"}, "one word of printable ASCII", id="a line of its own"),
    pytest.param({"credential": {"credential_env": "ARENA_CREDENTIAL_1"}}, {"ARENA_CREDENTIAL_1": "sk-1"}, "not for bundles to name", id="a job's"),
    pytest.param({"credential": {"credential_env": "REDIS_URL"}}, {"REDIS_URL": "sk-1"}, "not for bundles to name", id="ours"),
    pytest.param({"credential": {"credential_file": "gone"}}, {}, "file 'gone' cannot be read", id="no file"),
    pytest.param({"credential": {"credential_file": "empty"}}, {}, "it is empty", id="an empty file"),
    pytest.param({"credential": {"credential_file": "pem"}}, {}, "one word of printable ASCII", id="a file that is no key"),
    pytest.param({"credential": {"credential_file": "/proc/self/environ"}}, {}, "not for bundles to name", id="the process itself"),
    pytest.param(
        {"credential": {"credential_file": "/var/run/secrets/kubernetes.io/serviceaccount/token"}}, {}, "not for bundles to name", id="the pod itself"
    ),
    pytest.param({"credential": {"credential_file": "link"}}, {}, "not for bundles to name", id="a link to the process"),
]


@pytest.mark.parametrize(("more", "environment", "cause"), REFUSED)
def test_a_key_that_cannot_be_had(tmp_path: Path, more: Mapping[str, Any], environment: Mapping[str, str], cause: str) -> None:
    """The message names the provider and the variable or file, and never shows a value."""
    (tmp_path / "empty").touch()
    (tmp_path / "pem").write_text("-----BEGIN KEY-----\nsecret\n")
    (tmp_path / "link").symlink_to("/proc/self/status")
    with pytest.raises(CredentialMissing, match=cause) as caught:
        Keys(environment, tmp_path).of({**OPENAI, **more})
    assert caught.value.message.startswith("cannot ask provider 'p': ")
    assert not [value for value in environment.values() if value.strip() and value in caught.value.message]


def test_a_job_names_its_own_variables(tmp_path: Path) -> None:
    """What reconcile wrote may name the variables that hold the keys of a job."""
    spec = {**OPENAI, "from_job": True, "credential": {"credential_env": "ARENA_CREDENTIAL_1"}}
    assert Keys({"ARENA_CREDENTIAL_1": "k"}, tmp_path).of(spec) == "k"


def test_every_missing_key_is_named_at_once() -> None:
    """Who sets variables wants to hear of all that are missing, in order."""
    auth = {
        "type": "claude",
        "from_job": True,
        "platform": {"type": "bedrock"},
        "auth": {"variables": {"AWS_ACCESS_KEY_ID": "ARENA_CREDENTIAL_2_ID"}},
    }
    specs: dict[str, dict[str, Any]] = {
        "b": {"type": "openai"},
        "a": {"type": "gemini", **ENV},
        "c": auth,
        "d": {"type": "mock"},
        "e": {"type": "ollama"},
        "f": {"type": "openai"},
    }
    with pytest.raises(CredentialMissing) as caught:
        check(specs, {})
    assert caught.value.message.splitlines() == [
        "cannot ask provider 'a': variable MINE is not set",
        "cannot ask provider 'b', 'f': variable OPENAI_API_KEY or OPENAI_TOKEN is not set",
        "cannot ask provider 'c': variable ARENA_CREDENTIAL_2_ID is not set",
    ]
    check(specs, {"MINE": "k", "OPENAI_TOKEN": "k", "ARENA_CREDENTIAL_2_ID": "k"})


def test_what_is_wanted_is_more_than_what_is_needed() -> None:
    """A variable that is used if it is set is known to whoever starts workers."""
    assert wanted({"type": "openai", "base_url": "http://llm:1/v1"}) == ("OPENAI_API_KEY", "OPENAI_TOKEN")
    assert wanted({"type": "openai", "platform": {"type": "azure"}}) == ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY")


async def test_a_key_is_not_shown(tmp_path: Path) -> None:
    """Neither a signer nor what finds keys shows one; without a key there is no header."""
    assert "secret" not in repr(ApiKey("secret"))
    assert "secret" not in repr(Keys({"K": "secret"}, tmp_path))
    assert await ApiKey("k", header="api-key", scheme="").headers("POST", "", b"") == {"api-key": "k"}
    assert await ApiKey().headers("POST", "", b"") == {}
