"""The proof that GitHub and both Bitbuckets share: `sha256=<hex>` in one header, HMAC-SHA256 over the raw body (WebSub's X-Hub-Signature, grown up)."""

from datetime import datetime
from typing import ClassVar

from starlette.datastructures import Headers

from hooks.delivery import Delivery, Proof
from hooks.hosts.signatures import SHA256_PREFIX, SIGNATURE_CHALLENGE, hex_signature, is_prefixed_signature, only


class HubSigned:
    """The half of a `GitHost` that proves; `signature_header` says where the signature stands."""

    challenge = SIGNATURE_CHALLENGE
    signature_header: ClassVar[str]

    def proof(self, headers: Headers) -> Proof:
        """Find the signature."""
        return Proof.BODY if only(headers, self.signature_header) else Proof.ABSENT

    def is_proven(self, delivery: Delivery, secret: bytes) -> bool:
        """Check the signature over the body as it came."""
        return is_prefixed_signature(only(delivery.headers, self.signature_header), delivery.body, secret)

    def sign(self, secret: bytes, body: bytes, moment: datetime) -> dict[str, str]:  # noqa: ARG002 - no time is signed
        """Sign the body."""
        return {self.signature_header: SHA256_PREFIX + hex_signature(body, secret)}
