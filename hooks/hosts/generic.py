"""Any sender that can sign: a script, a CI job, a git host that is not listed.

Signature: `X-Signature: sha256=<hex>` or `sha512=<hex>`, HMAC over the raw body: the header of Flux's generic-hmac receiver, which also takes SHA-1; we do
not. Body, our own form, described in docs/webhooks.md: `{"repository": "<URL of the repository>", "ref": "refs/heads/main", "event": "push"}`, of which only
the repository is needed.
https://fluxcd.io/flux/components/notification/receivers/#generic-hmac
"""

from datetime import datetime

from starlette.datastructures import Headers

from hooks.delivery import Delivery, Notice, Payload, Proof, Sample
from hooks.hosts.signatures import SHA256_PREFIX, SIGNATURE_CHALLENGE, hex_signature, is_hex_signature, only
from hooks.payload import text_at

SIGNATURE = "x-signature"
ALGORITHMS = frozenset({"sha256", "sha512"})
PUSH = "push"


class Generic:
    """Deliveries in our own form."""

    name = "generic"
    challenge = SIGNATURE_CHALLENGE
    forms = False

    def proof(self, headers: Headers) -> Proof:
        """Find the signature."""
        return Proof.BODY if only(headers, SIGNATURE) else Proof.ABSENT

    def is_proven(self, delivery: Delivery, secret: bytes) -> bool:
        """Check the signature over the body, by the algorithm that it names."""
        algorithm, _, offered = only(delivery.headers, SIGNATURE).partition("=")
        return algorithm in ALGORITHMS and is_hex_signature(offered, delivery.body, secret, algorithm)

    def notice(self, headers: Headers, payload: Payload) -> Notice:  # noqa: ARG002 - the payload names its event itself
        """Read the event, a push unless it says otherwise, and the repository."""
        event = text_at(payload, "event") or PUSH
        repository = text_at(payload, "repository")
        return Notice(event, event == PUSH, (repository,) if repository else (), text_at(payload, "ref"))

    def sample(self, remote: str) -> Sample:
        """Return a push."""
        return Sample({}, {"repository": remote, "ref": "refs/heads/main", "event": PUSH})

    def sign(self, secret: bytes, body: bytes, moment: datetime) -> dict[str, str]:  # noqa: ARG002 - only the body is signed
        """Sign the body."""
        return {"X-Signature": SHA256_PREFIX + hex_signature(body, secret)}
