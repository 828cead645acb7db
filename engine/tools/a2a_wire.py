"""The A2A protocol's words, in its versions 1.0 and 0.3: the card, the request, the answer. Pure.

Source: the A2A specification, 1.0 sections 4 (objects) and 9 (JSON-RPC), and 0.3 sections 5 to 7. An agent is spoken to in the version that its card
names for its JSON-RPC interface.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from engine.bundle.services import AgentCard, AgentSkill
from engine.tools.port import ToolAnswer

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""Where a card is: as both versions say, and as agents before 0.3 did."""

VERSION_HEADER = "A2A-Version"
_DONE = ("completed", "failed", "canceled", "cancelled", "rejected", "input-required", "auth-required")
_TEXT_LIMIT = 200


class WireFault(Exception):
    """What an agent sent is not the protocol's, or says that it failed."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how an agent is spoken to."""

    url: str
    is_current: bool
    """Whether it speaks 1.0; otherwise 0.3."""

    @property
    def headers(self) -> dict[str, str]:
        """Return what a request says of its version."""
        return {"Content-Type": "application/json", "Accept": "application/json", VERSION_HEADER: "1.0" if self.is_current else "0.3"}


def read_card(body: bytes, base: str) -> tuple[AgentCard, Endpoint]:
    """Read a card.

    Raises:
        WireFault: it is none, or names no JSON-RPC interface.
    """
    card = _object(body, "its card")
    if not isinstance(card.get("name"), str) or not card["name"]:
        raise WireFault("its card has no name")
    skills = [_skill(skill) for skill in card.get("skills") or () if isinstance(skill, Mapping) and isinstance(skill.get("id"), str)]
    return AgentCard(card["name"], tuple(skills), str(card.get("description") or ""), _texts(card.get("defaultInputModes"))), _endpoint(card, base)


def _skill(skill: Mapping[str, Any]) -> AgentSkill:
    return AgentSkill(
        skill["id"], str(skill.get("name") or ""), str(skill.get("description") or ""), _texts(skill.get("tags")), _texts(skill.get("inputModes"))
    )


def _endpoint(card: Mapping[str, Any], base: str) -> Endpoint:
    offered = [entry for entry in card.get("supportedInterfaces") or () if isinstance(entry, Mapping)]
    for entry in offered:
        if str(entry.get("protocolBinding", "")).upper() == "JSONRPC" and entry.get("url"):
            return Endpoint(urljoin(base, str(entry["url"])), str(entry.get("protocolVersion") or "1.0").startswith("1"))
    if offered:
        raise WireFault("its card names no JSON-RPC interface")
    own = [(card.get("preferredTransport") or "JSONRPC", card.get("url"))]
    own += [(entry.get("transport"), entry.get("url")) for entry in card.get("additionalInterfaces") or () if isinstance(entry, Mapping)]
    found = next((url for transport, url in own if url and str(transport).upper() == "JSONRPC"), None)
    if found is None:
        raise WireFault("its card names no JSON-RPC interface")
    return Endpoint(urljoin(base, str(found)), is_current=False)


def send_request(endpoint: Endpoint, ident: str, arguments: Mapping[str, Any], skill: str = "") -> bytes:
    """Return the request that sends a message and waits for what comes of it. `arguments` are `query` and media, as the tool's schema names them."""
    parts = [_text_part(endpoint, str(arguments.get("query", "")))]
    parts += [_media_part(endpoint, key, arguments[key]) for key in ("image_url", "image_data", "audio_data") if arguments.get(key)]
    message: dict[str, Any] = {"messageId": ident, "role": "ROLE_USER" if endpoint.is_current else "user", "parts": parts}
    if skill:
        message["metadata"] = {"skillId": skill}
    if not endpoint.is_current:
        message["kind"] = "message"
    configuration: dict[str, Any] = {"returnImmediately": False} if endpoint.is_current else {"blocking": True}
    return _call(endpoint, "SendMessage", "message/send", ident, {"message": message, "configuration": configuration})


def look_request(endpoint: Endpoint, ident: str, task: str) -> bytes:
    """Return the request that asks how a task stands."""
    return _call(endpoint, "GetTask", "tasks/get", ident, {"id": task})


def _call(endpoint: Endpoint, current: str, old: str, ident: str, params: Mapping[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": ident, "method": current if endpoint.is_current else old, "params": params}).encode()


def _text_part(endpoint: Endpoint, text: str) -> dict[str, Any]:
    return {"text": text} if endpoint.is_current else {"kind": "text", "text": text}


def _media_part(endpoint: Endpoint, key: str, value: str) -> dict[str, Any]:
    kind = "image/*" if key.startswith("image") else "audio/*"
    way, old = ("url", "uri") if key.endswith("_url") else ("raw", "bytes")
    return {way: value, "mediaType": kind} if endpoint.is_current else {"kind": "file", "file": {old: value, "mimeType": kind}}


def read_answer(body: bytes) -> tuple[ToolAnswer | None, str]:
    """Return what came of a message, or (None, id) of the task that still works at it.

    Raises:
        WireFault: the agent failed, refused, or did not speak the protocol.
    """
    content = _object(body, "its answer")
    if content.get("error"):
        error = content["error"]
        raise WireFault(f"it refused: {error.get('message') if isinstance(error, Mapping) else error}")
    result = content.get("result")
    if not isinstance(result, Mapping):
        raise WireFault("its answer has no result")
    if isinstance(result.get("message"), Mapping):
        return _answer(result["message"].get("parts")), ""
    task = result["task"] if isinstance(result.get("task"), Mapping) else result
    if "status" not in task:
        return _answer(task.get("parts")), ""
    return _of_task(task)


def _of_task(task: Mapping[str, Any]) -> tuple[ToolAnswer | None, str]:
    status = task["status"] if isinstance(task["status"], Mapping) else {}
    state = str(status.get("state", "")).lower().removeprefix("task_state_").replace("_", "-")
    said = status["message"].get("parts") if isinstance(status.get("message"), Mapping) else None
    if state not in _DONE:
        if not task.get("id"):
            raise WireFault(f"its task is '{state}' and has no id")
        return None, str(task["id"])
    if state not in ("completed", "input-required"):
        words = _answer(said).text
        raise WireFault(f"its task is '{state}'{f': {words[:_TEXT_LIMIT]}' if words else ''}")
    parts = [part for artifact in task.get("artifacts") or () if isinstance(artifact, Mapping) for part in artifact.get("parts") or ()]
    return _answer(parts or said), ""


def _answer(parts: Any) -> ToolAnswer:
    texts: list[str] = []
    media: list[dict[str, Any]] = []
    for part in parts if isinstance(parts, Sequence) else ():
        if not isinstance(part, Mapping):
            continue
        if isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif part.get("data") is not None:
            texts.append(json.dumps(part["data"], ensure_ascii=False))
        else:
            media.append(_read_media(part))
    return ToolAnswer("\n".join(texts), media)


def _read_media(part: Mapping[str, Any]) -> dict[str, Any]:
    file = part["file"] if isinstance(part.get("file"), Mapping) else part
    mime_type = str(file.get("mimeType") or file.get("mediaType") or "")
    family = mime_type.partition("/")[0]
    known = {"mimeType": mime_type, "url": file.get("uri") or file.get("url"), "data": file.get("bytes") or file.get("raw")}
    return {"type": family if family in ("image", "audio", "video") else "document", "media": {key: value for key, value in known.items() if value}}


def _object(body: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise WireFault(f"{what} is not a JSON object")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(entry) for entry in value) if isinstance(value, list) else ()
