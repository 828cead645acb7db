"""Gitea, Forgejo and Gogs, whose deliveries have one form.

Signature: `X-Forgejo-Signature`, `X-Gitea-Signature` or `X-Gogs-Signature: <hex>`, or `X-Hub-Signature-256: sha256=<hex>`; the first of them that is there
decides, and a good one behind it does not make up for it. HMAC-SHA256 over the JSON text, and where the hook sends a form, over its field `payload`
as it is once decoded (go-gitea/gitea services/webhook/deliver.go signs PayloadContent), not over the body. Events: `X-Gitea-Event` and its likes.
https://docs.gitea.com/usage/repository/webhooks
https://forgejo.org/docs/latest/user/webhooks/
https://gogs.io/docs/features/webhook
"""

from datetime import datetime

from starlette.datastructures import Headers

from hooks.delivery import Delivery, Notice, Payload, Proof, Sample
from hooks.hosts.github import REF_EVENTS, REPOSITORY_KEYS, push_of
from hooks.hosts.signatures import SIGNATURE_CHALLENGE, hex_signature, is_hex_signature, is_prefixed_signature, only
from hooks.payload import text_at, texts_at

SIGNATURES = ("x-forgejo-signature", "x-gitea-signature", "x-gogs-signature")
HUB_SIGNATURE = "x-hub-signature-256"
EVENTS = ("x-forgejo-event", "x-gitea-event", "x-gogs-event", "x-github-event")


class Gitea:
    """Deliveries of Gitea, Forgejo and Gogs."""

    name = "gitea"
    challenge = SIGNATURE_CHALLENGE
    forms = True

    def proof(self, headers: Headers) -> Proof:
        """Find a signature; without a secret these hosts send the header empty."""
        return Proof.BODY if any(only(headers, name) for name in (*SIGNATURES, HUB_SIGNATURE)) else Proof.ABSENT

    def is_proven(self, delivery: Delivery, secret: bytes) -> bool:
        """Check the first signature that is there, over the JSON text."""
        offered = next((value for name in SIGNATURES if (value := only(delivery.headers, name))), "")
        if offered:
            return is_hex_signature(offered, delivery.document, secret)
        return is_prefixed_signature(only(delivery.headers, HUB_SIGNATURE), delivery.document, secret)

    def notice(self, headers: Headers, payload: Payload) -> Notice:
        """Read the event's name and the repository."""
        event = next((value for name in EVENTS if (value := only(headers, name))), "")
        return Notice(event, event in REF_EVENTS, texts_at(payload, ("repository",), REPOSITORY_KEYS), text_at(payload, "ref"))

    def sample(self, remote: str) -> Sample:
        """Return a push."""
        return Sample({"X-Gitea-Event": "push"}, push_of(remote))

    def sign(self, secret: bytes, body: bytes, moment: datetime) -> dict[str, str]:  # noqa: ARG002 - Gitea signs no time
        """Sign the JSON text."""
        return {"X-Gitea-Signature": hex_signature(body, secret)}
