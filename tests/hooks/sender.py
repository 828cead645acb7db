"""A git host that delivers to a receiver over a store in memory, without a network.

Signs by itself, so that a fault shared by the receiver's own signing and checking would show.
"""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from foundation.clock import FakeClock
from hooks.receiver import HookLimits, Receiver
from reconcile.cluster.port import ARENA_PROJECT, EVENT, SECRET
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.kinds.admission import admit, admit_status
from reconcile.kinds.names import REQUESTED_SYNC

DEADLINE_S = 20
SECRET_TEXT = "correct horse battery staple"
SIGNING_TOKEN = "whsec_" + base64.b64encode(b"a key of GitLab's making, 32 b..").decode()
TEAM, PROJECT = "team", "prompts"
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
FLAVOURS: Final = (
    "github",
    "gitlab",
    "gitlab-signing",
    "gitea",
    "forgejo",
    "gogs",
    "gitea-hub",
    "bitbucket",
    "bitbucket-server",
    "azure-devops",
    "generic",
)
"""Every way in which one of the hosts proves a delivery."""


@dataclass(frozen=True)
class Answer:
    """What the receiver answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The body."""
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def text(self) -> str:
        """The error and its remedy."""
        return f"{self.json.get('error', '')} | {self.json.get('hint', '')}"


class Incoming:
    """The events of a request. `gone`: the client leaves at their end; otherwise it waits for its answer."""

    def __init__(self, portions: Iterable[bytes], *, gone: bool = False, stalls: bool = False) -> None:
        self._portions = list(portions) or [b""]
        self._gone = gone
        self._stalls = stalls
        self.read_bytes = 0

    async def receive(self) -> dict[str, Any]:
        """Give the next event."""
        if not self._portions:
            if self._gone:
                return {"type": "http.disconnect"}
            await asyncio.Event().wait()
        data = self._portions.pop(0)
        self.read_bytes += len(data)
        return {"type": "http.request", "body": data, "more_body": bool(self._portions) or self._gone or self._stalls}


class Hooks:
    """An installation's webhooks, and whoever delivers to them."""

    def __init__(self, limits: HookLimits | None = None) -> None:
        self.clock = FakeClock()
        self.cluster = SqliteCluster(":memory:", self.clock, admit=admit, admit_status=admit_status)
        self.receiver = Receiver(self.cluster, self.clock, limits)

    async def subscribe(self, host: str, url: str, *, secret: str = SECRET_TEXT, key: str = f"{TEAM}/{PROJECT}", **spec: Any) -> None:
        """Create a project that takes deliveries of a host, and the Secret."""
        namespace, _, name = key.partition("/")
        webhook = {"host": host, "secretRef": {"name": f"{name}-hook", "key": "secret"}}
        await self.cluster.create(project(namespace, name, {"external": {"url": url, "webhook": webhook}, **spec}))
        await self.put_secret(namespace, f"{name}-hook", {"secret": secret})

    async def put_secret(self, namespace: str, name: str, data: Mapping[str, str]) -> None:
        """Create a Secret."""
        metadata = {"namespace": namespace, "name": name}
        await self.cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict(data)})

    async def set_secret(self, value: str, *, namespace: str = TEAM, name: str = f"{PROJECT}-hook") -> None:
        """Replace the secret."""
        await self.cluster.patch(SECRET, namespace, name, {"data": {"secret": base64.b64encode(value.encode()).decode()}})

    async def stamp(self, key: str = f"{TEAM}/{PROJECT}") -> str | None:
        """Return what the project was asked for."""
        namespace, _, name = key.partition("/")
        found = await self.cluster.get(ARENA_PROJECT, namespace, name)
        value: str | None = (found["metadata"].get("annotations") or {}).get(REQUESTED_SYNC)
        return value

    async def events(self) -> list[dict[str, Any]]:
        """Return all Events."""
        return (await self.cluster.list(EVENT)).items

    async def post(
        self,
        path: str,
        body: bytes | Incoming,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        *,
        method: str = "POST",
        client: tuple[str, int] | None = ("192.0.2.7", 4000),
    ) -> Answer:
        """Send one request and return the whole answer."""
        incoming = body if isinstance(body, Incoming) else Incoming([body])
        given = list(headers.items() if isinstance(headers, Mapping) else headers)
        if isinstance(body, bytes):
            given = [("content-length", str(len(body))), *given]
        if not any(name.lower() == "content-type" for name, _ in given):
            given.append(("content-type", JSON))
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in given],
            "client": client,
        }
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async with asyncio.timeout(DEADLINE_S):
            await self.receiver(scope, incoming.receive, send)
        if not sent:
            return Answer(0, {}, b"")
        answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], answered, b"".join(message.get("body", b"") for message in sent[1:]))

    async def deliver(self, flavour: str, payload: object, event: str = "push", *, secret: str = "", path: str = "", form: bool = False) -> Answer:
        """Deliver a payload as a host would: its own signature, its own event header."""
        document = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        body = urlencode({"payload": document}).encode() if form else document
        headers = proof(flavour, body, document, secret or secret_of(flavour)) | event_header(flavour, event)
        if form:
            headers["content-type"] = FORM
        return await self.post(path or f"/hooks/{host_of(flavour)}/{TEAM}/{PROJECT}", body, headers)


def project(namespace: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return an ArenaProject."""
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": ARENA_PROJECT.api_version, "kind": "ArenaProject", "metadata": metadata, "spec": spec}


def host_of(flavour: str) -> str:
    """Return the host that proves in this way."""
    others = {"gitlab-signing": "gitlab", "forgejo": "gitea", "gogs": "gitea", "gitea-hub": "gitea"}
    return others.get(flavour, flavour)


def secret_of(flavour: str) -> str:
    """Return the right secret."""
    return SIGNING_TOKEN if flavour == "gitlab-signing" else SECRET_TEXT


def proof(flavour: str, body: bytes, document: bytes, secret: str) -> dict[str, str]:
    """Return the header that proves a delivery in the host's way, as its documentation has it."""
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    over_text = hmac.new(secret.encode(), document, hashlib.sha256).hexdigest()
    if flavour == "gitlab-signing":
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = base64.b64encode(hmac.new(key, b"msg-1.1700000000." + body, hashlib.sha256).digest()).decode()
        return {"webhook-id": "msg-1", "webhook-timestamp": "1700000000", "webhook-signature": f"v1,{signed}"}
    return {
        "github": {"X-Hub-Signature-256": f"sha256={signature}", "X-Hub-Signature": "sha1=0000"},
        "gitlab": {"X-Gitlab-Token": secret},
        "gitea": {"X-Gitea-Signature": over_text, "X-Gogs-Signature": over_text, "X-Hub-Signature-256": f"sha256={over_text}"},
        "forgejo": {"X-Forgejo-Signature": over_text, "X-Gitea-Signature": over_text},
        "gogs": {"X-Gogs-Signature": over_text},
        "gitea-hub": {"X-Hub-Signature-256": f"sha256={over_text}"},
        "bitbucket": {"X-Hub-Signature": f"sha256={signature}"},
        "bitbucket-server": {"X-Hub-Signature": f"sha256={signature}"},
        "azure-devops": {"Authorization": "Basic " + base64.b64encode(f"anyone:{secret}".encode()).decode()},
        "generic": {"X-Signature": f"sha256={signature}"},
    }[flavour]


def event_header(flavour: str, event: str) -> dict[str, str]:
    """Return the header that names the event, for the hosts that have one."""
    names = {
        "github": "X-GitHub-Event",
        "gitea": "X-Gitea-Event",
        "forgejo": "X-Forgejo-Event",
        "gogs": "X-Gogs-Event",
        "gitea-hub": "X-GitHub-Event",
        "bitbucket": "X-Event-Key",
        "bitbucket-server": "X-Event-Key",
    }
    return {names[flavour]: event} if flavour in names else {}


def push(flavour: str, url: str) -> tuple[dict[str, Any], str]:
    """Return the least of a push, and its event."""
    nothing = "0" * 40
    like_github = {"ref": "refs/heads/main", "before": nothing, "after": "1" * 40, "repository": {"clone_url": url}}
    payloads: dict[str, tuple[dict[str, Any], str]] = {
        "github": (like_github, "push"),
        "gitea": (like_github, "push"),
        "gitlab": ({"object_kind": "push", "ref": "refs/heads/main", "project": {"git_http_url": url}}, ""),
        "bitbucket": ({"repository": {"links": {"html": {"href": url}}}, "push": {"changes": [{"new": {"name": "main"}}]}}, "repo:push"),
        "bitbucket-server": ({"repository": {"links": {"clone": [{"href": url, "name": "http"}]}}, "changes": []}, "repo:refs_changed"),
        "azure-devops": ({"eventType": "git.push", "resource": {"repository": {"remoteUrl": url}, "refUpdates": []}}, ""),
        "generic": ({"repository": url}, ""),
    }
    return payloads[host_of(flavour)]


def payload_file(corpus: Path, name: str) -> bytes:
    """Return one payload of the shared corpus."""
    return (corpus / "webhooks" / name).read_bytes()
