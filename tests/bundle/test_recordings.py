"""Recorded conversations: the three kinds of files, what each must be, and which file is which."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.bundle.loader import load_bundle
from engine.bundle.recording_reader import kind_of, load_recording
from engine.bundle.recordings import RecordedCall, Recording
from engine.errors import BundleInvalid

USER, REPLY = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}


def read(tmp_path: Path, name: str, content: Any, kind: str = "") -> Recording:
    """Write a recording and read it."""
    (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return load_recording(tmp_path, name, kind)


def test_a_session(tmp_path: Path) -> None:
    """Events that are messages, in order, with the time of the event; others are passed over."""
    events = [
        {"type": "message", "timestamp": "2024-01-15T10:00:00Z", "message": USER},
        {"type": "audio.chunk", "data": "…"},
        {"type": "message", "timestamp": "2024-01-15T10:00:02Z", "message": REPLY},
    ]
    found = read(
        tmp_path, "a.recording.json", {"metadata": {"session_id": "s", "provider_id": "p", "model": "m", "tags": ["x", 1]}, "events": events}
    )
    assert [(message.role, message.content) for message in found.messages] == [("user", "hi"), ("assistant", "hello")]
    assert (found.session, found.provider, found.model, found.tags) == ("s", "p", "m", ("x",))
    assert found.messages[1].at == datetime(2024, 1, 15, 10, 0, 2, tzinfo=UTC)


def test_a_result_of_the_reference(tmp_path: Path) -> None:
    """Parts make up a missing content; costs, tools and latencies are read where they are."""
    messages = [
        {"role": "system", "parts": [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind."}]},
        USER,
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "1", "name": "look", "args": {"q": "x"}}],
            "latency_ms": 12,
            "cost_info": {"input_tokens": 5, "output_tokens": 6, "cached_tokens": 1, "total_cost_usd": 0.5},
        },
        {
            "role": "tool",
            "tool_result": {
                "id": "1",
                "name": "look",
                "error": "not there",
                "parts": [{"type": "image", "media": {"mime_type": "image/png", "width": 2}}],
            },
        },
        REPLY,
    ]
    found = read(tmp_path, "a.arena.json", {"RunID": "r", "ProviderID": "p", "Messages": messages})
    system, _, call, answer, _ = found.messages
    assert system.content == "Be kind."
    assert call.calls == (RecordedCall("1", "look", {"q": "x"}),)
    assert (call.latency_ms, call.input_tokens, call.output_tokens, call.cached_tokens, call.cost_usd) == (12.0, 5, 6, 1, 0.5)
    assert (answer.name, answer.call_id, answer.error, answer.content) == ("look", "1", "not there", "not there")
    assert answer.parts == ({"type": "image", "media": {"mimeType": "image/png", "width": 2}},)
    assert (found.session, found.provider) == ("r", "p")


def test_a_transcript(tmp_path: Path) -> None:
    """YAML as a person writes it, and calls as most vendors spell them."""
    text = """\
metadata: {session_id: s, provider: openai, model: gpt}
messages:
  - {role: user, content: "yes"}
  - role: assistant
    tool_calls:
      - {id: "1", function: {name: look, arguments: '{"q": 1}'}}
      - {id: "2", function: {name: odd, arguments: '{'}}
  - {role: tool, name: look, tool_call_id: "1", content: found}
  - {role: assistant, content: done}
"""
    found = read(tmp_path, "a.transcript.yaml", text)
    assert found.messages[1].calls == (RecordedCall("1", "look", {"q": 1}), RecordedCall("2", "odd", "{"))
    assert (found.messages[2].call_id, found.messages[2].name, found.messages[2].content) == ("1", "look", "found")
    assert [message.content for message in found.replies] == ["", "done"]


@pytest.mark.parametrize(
    ("file", "wanted", "kind"),
    [
        ("a.recording.json", "", "session"),
        ("a.arena-output.json", "", "arena_output"),
        ("a.arena.json", "", "arena_output"),
        ("a.transcript.yml", "", "transcript"),
        ("a.recording.json", "transcript", "transcript"),
        ("odd.json", "session", "session"),
    ],
)
def test_which_kind_a_file_is(file: str, wanted: str, kind: str) -> None:
    """What the author says comes first, then the name."""
    assert kind_of(file, wanted) == kind


@pytest.mark.parametrize(
    ("name", "content", "kind", "cause"),
    [
        ("a.json", {}, "", "its name does not say of which kind it is"),
        ("a.json", {}, "generic", "type 'generic' has no reader"),
        ("a.arena.json", [], "", "it must be an object"),
        ("a.arena.json", {"Messages": {}}, "", "'Messages' must be a list"),
        ("a.arena.json", {"Messages": [1]}, "", "message 1 must be an object"),
        ("a.arena.json", {"Messages": [{"role": "asistant"}]}, "", "message 1 has role 'asistant'"),
        ("a.arena.json", {"Messages": [USER]}, "", "it has no message of an assistant"),
        ("a.arena.json", {"Messages": [{**REPLY, "tool_calls": {}}]}, "", "'tool_calls' must be a list"),
        ("a.arena.json", {"Messages": [{**REPLY, "tool_calls": [{"name": "x", "args": [1]}]}]}, "", "the arguments of a tool call must be an object"),
        ("a.arena.json", "{\n 'x'}", "", "a.arena.json:2: cannot read the recording: Expecting"),
        ("a.arena.json", "[" * 100_000, "", "nested too deeply"),
        ("a.recording.json", {"events": [{"type": "message", "message": []}]}, "", "a message must be an object"),
        ("a.transcript.yaml", "messages: [{role: user, role: user}]", "", "role"),
    ],
)
def test_what_is_no_recording_is_refused_by_name(tmp_path: Path, name: str, content: Any, kind: str, cause: str) -> None:
    """The message names the file and what of it is wrong."""
    with pytest.raises(BundleInvalid) as caught:
        read(tmp_path, name, content, kind)
    assert cause in caught.value.message
    assert caught.value.message.startswith(name)


@pytest.mark.parametrize("file", ["../outside.arena.json", "absent.arena.json", "link.arena.json"])
def test_nothing_outside_of_the_bundle_is_read(tmp_path: Path, file: str) -> None:
    """Neither by a path nor by a symlink; and what is not there is named."""
    root = tmp_path / "bundle"
    root.mkdir()
    (tmp_path / "outside.arena.json").write_text(json.dumps({"Messages": [REPLY]}))
    (root / "link.arena.json").symlink_to(tmp_path / "outside.arena.json")
    with pytest.raises(BundleInvalid):
        load_recording(root, file)


@pytest.mark.parametrize("name", ["customer-support.arena.json", "geography.recording.json"])
def test_real_recordings(name: str) -> None:
    """The recordings of the reference's examples are read whole."""
    root = Path(__file__).parents[2] / "../shared/corpus/promptkit/eval-test/recordings"
    if not root.is_dir():
        pytest.skip("the corpus is not here")
    found = load_recording(root, name)
    assert len(found.replies) >= 2
    assert all(message.content for message in found.messages)


REPLAY = """\
kind: Provider
metadata: {{name: again}}
spec: {{type: replay, additional_config: {{{config}}}}}
"""


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ("recording: x.recording.json", "providers/x.recording.json"),
        ("recording: ../x.recording.json", "x.recording.json"),
        ("recording: there.recording.json", "there.recording.json"),
        ("arena_output: ../y.arena.json, timing: realtime, match: content, speed: 2", "y.arena.json"),
    ],
)
def test_a_replay_names_its_recording_beside_it(tmp_path: Path, config: str, path: str) -> None:
    """The path is relative to the provider's file; one that is only in the config directory is found there."""
    found = _bundle(tmp_path, config).providers["again"].spec["additional_config"]
    assert path in {found.get("recording"), found.get("arena_output")}


@pytest.mark.parametrize(
    ("config", "cause"),
    [
        ("recording: ../../x.json", "the path leaves the bundle"),
        ("recordng: x.json", "unknown key 'recordng'"),
        ("recording: x.json, timing: slow", "unknown value 'slow'"),
        ("recording: x.json, speed: 0", "it must be at least 0.001"),
    ],
)
def test_a_replay_that_cannot_be_meant_is_refused(tmp_path: Path, config: str, cause: str) -> None:
    """Wrong keys and values are errors of the bundle."""
    with pytest.raises(BundleInvalid) as caught:
        _bundle(tmp_path, config)
    assert cause in caught.value.message


def _bundle(root: Path, config: str) -> Any:
    (root / "providers").mkdir()
    (root / "there.recording.json").write_text("{}")
    (root / "providers" / "again.yaml").write_text(REPLAY.format(config=config))
    (root / "config.arena.yaml").write_text("kind: Arena\nmetadata: {name: a}\nspec: {providers: [{file: providers/again.yaml}], defaults: {}}\n")
    return load_bundle(root)
