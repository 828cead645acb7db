"""Azure DevOps Services and Server: service hooks of the consumer "Web Hooks".

They sign nothing; basic authentication is what they offer, so this needs https before us. The secret is the password, or `user:password` when the user's
name is to be checked, too. Event: `eventType`. "Resource details to send" must be All, the default: Minimal and None leave the repository out.
The button "Test" sends an example of a repository that is nobody's, under a subscription of zeros.
https://learn.microsoft.com/azure/devops/service-hooks/services/webhooks
https://learn.microsoft.com/azure/devops/service-hooks/events#code-pushed
"""

import base64
import binascii
from datetime import datetime
from uuid import UUID

from starlette.datastructures import Headers

from hooks.delivery import Delivery, Notice, Payload, Proof, Sample
from hooks.hosts.signatures import is_same, only
from hooks.payload import items_at, text_at, texts_at

AUTHORIZATION = "authorization"
TEST_SUBSCRIPTION = str(UUID(int=0))


class AzureDevOps:
    """Deliveries of Azure DevOps."""

    name = "azure-devops"
    challenge = "Basic"
    forms = False

    def proof(self, headers: Headers) -> Proof:
        """Find basic credentials."""
        return Proof.HEAD if _credentials(headers) else Proof.ABSENT

    def is_proven(self, delivery: Delivery, secret: bytes) -> bool:
        """Compare the password, or user and password, with the secret."""
        offered = _credentials(delivery.headers)
        return is_same(offered, secret) or is_same(offered.partition(":")[2], secret)

    def notice(self, headers: Headers, payload: Payload) -> Notice:  # noqa: ARG002 - the payload names its event itself
        """Read the event's type and the repository."""
        event = text_at(payload, "eventType")
        asks = event == "git.push" and text_at(payload, "subscriptionId") != TEST_SUBSCRIPTION
        spellings = texts_at(payload, ("resource", "repository"), ("remoteUrl", "sshUrl", "webUrl"))
        return Notice(event, asks, spellings, text_at(next(items_at(payload, "resource", "refUpdates"), None), "name"))

    def sample(self, remote: str) -> Sample:
        """Return a push."""
        update = {"name": "refs/heads/main", "oldObjectId": "0" * 40, "newObjectId": "0" * 40}
        return Sample({}, {"eventType": "git.push", "resource": {"refUpdates": [update], "repository": {"remoteUrl": remote}}})

    def sign(self, secret: bytes, body: bytes, moment: datetime) -> dict[str, str]:  # noqa: ARG002 - only the secret is sent
        """Send the secret as basic credentials."""
        credentials = secret if b":" in secret else b"arena:" + secret
        return {"Authorization": f"Basic {base64.b64encode(credentials).decode()}"}


def _credentials(headers: Headers) -> str:
    """Return `user:password` as Latin-1 text, "" when there are no basic credentials."""
    scheme, _, value = only(headers, AUTHORIZATION).partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        credentials = base64.b64decode(value.strip(), validate=True).decode("latin-1")
    except (binascii.Error, ValueError):
        return ""
    return credentials if ":" in credentials else ""
