"""GitLab: webhooks of projects and groups, and system hooks.

A secret that begins with `whsec_` is a signing token (GitLab 19): `webhook-signature: v1,<base64>`, one or several, HMAC-SHA256 over
`<webhook-id>.<webhook-timestamp>.<body>` with the token's base64 part as key, as Standard Webhooks has it. Any other secret is the older secret token,
which GitLab sends as it is in `X-Gitlab-Token`. One secret means one of the two, so a signing token is never accepted in clear. The time is not checked:
a delivery that is sent again asks for one more look and changes nothing, while a clock that is wrong would lose deliveries.
Events: `object_kind` of webhooks, `event_name` of system hooks. A push of more than three branches or tags causes no push event (push_event_hooks_limit).
https://docs.gitlab.com/user/project/integrations/webhooks/
https://docs.gitlab.com/user/project/integrations/webhook_events/
https://docs.gitlab.com/administration/system_hooks/
"""

import base64
import binascii
import hmac
import secrets
from datetime import datetime

from starlette.datastructures import Headers

from hooks.delivery import Delivery, Notice, Payload, Proof, Sample
from hooks.hosts.signatures import SHA256, SIGNATURE_CHALLENGE, is_same, only
from hooks.payload import text_at, texts_at

TOKEN = "x-gitlab-token"  # noqa: S105 - the name of a header
SIGNATURE = "webhook-signature"
SIGNING_TOKEN_PREFIX = b"whsec_"
MAX_SIGNATURES = 10
REF_EVENTS = frozenset({"push", "tag_push", "repository_update"})
_PROJECT_KEYS = ("git_http_url", "git_ssh_url", "web_url", "http_url", "ssh_url", "url", "homepage")
_REPOSITORY_KEYS = ("git_http_url", "git_ssh_url", "homepage", "url")


class GitLab:
    """Deliveries of GitLab."""

    name = "gitlab"
    challenge = SIGNATURE_CHALLENGE
    forms = False

    def proof(self, headers: Headers) -> Proof:
        """Find a signature or a token. With both, the body is needed: the secret says which of them counts."""
        if only(headers, SIGNATURE):
            return Proof.BODY
        return Proof.HEAD if only(headers, TOKEN) else Proof.ABSENT

    def is_proven(self, delivery: Delivery, secret: bytes) -> bool:
        """Check the signature for a signing token, the token in clear for any other secret."""
        if not secret.startswith(SIGNING_TOKEN_PREFIX):
            return is_same(only(delivery.headers, TOKEN), secret)
        expected = _signature(only(delivery.headers, "webhook-id"), only(delivery.headers, "webhook-timestamp"), delivery.body, secret)
        offered = only(delivery.headers, SIGNATURE).split(" ")[:MAX_SIGNATURES]
        return expected != b"" and any(is_same(signature, expected) for signature in offered)

    def notice(self, headers: Headers, payload: Payload) -> Notice:  # noqa: ARG002 - the payload names its event itself
        """Read the kind of event and the project."""
        event = text_at(payload, "object_kind") or text_at(payload, "event_name")
        spellings = texts_at(payload, ("project",), _PROJECT_KEYS) + texts_at(payload, ("repository",), _REPOSITORY_KEYS)
        return Notice(event, event in REF_EVENTS, tuple(dict.fromkeys(spellings)), text_at(payload, "ref"))

    def sample(self, remote: str) -> Sample:
        """Return a push."""
        nothing = "0" * 40
        payload = {"object_kind": "push", "ref": "refs/heads/main", "before": nothing, "after": nothing, "project": {"git_http_url": remote}}
        return Sample({"X-Gitlab-Event": "Push Hook"}, payload)

    def sign(self, secret: bytes, body: bytes, moment: datetime) -> dict[str, str]:
        """Sign the body with a signing token; send any other secret as it is."""
        if not secret.startswith(SIGNING_TOKEN_PREFIX):
            return {"X-Gitlab-Token": secret.decode("latin-1")}
        identity, timestamp = secrets.token_hex(16), str(int(moment.timestamp()))
        signature = _signature(identity, timestamp, body, secret).decode()
        return {"webhook-id": identity, "webhook-timestamp": timestamp, "webhook-signature": signature}


def _signature(identity: str, timestamp: str, body: bytes, secret: bytes) -> bytes:
    """Return `v1,<base64>`; b"" when the signing token is none: then nothing is ever proven by it."""
    try:
        key = base64.b64decode(secret.removeprefix(SIGNING_TOKEN_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return b""
    signed = f"{identity}.{timestamp}.".encode("latin-1", "replace") + body
    return b"v1," + base64.b64encode(hmac.digest(key, signed, SHA256)) if key else b""
