"""Bitbucket Cloud.

Signature: `X-Hub-Signature: sha256=<hex>`, HMAC-SHA256 over the raw body. Events: `X-Event-Key`; `repo:push` covers branches and tags, made, moved
and removed. A payload has no clone URL, but the repository's full name, which is its path on bitbucket.org.
https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/
https://support.atlassian.com/bitbucket-cloud/docs/event-payloads/
"""

from starlette.datastructures import Headers

from hooks.delivery import Notice, Payload, Sample
from hooks.hosts.hub_signature import HubSigned
from hooks.hosts.signatures import only
from hooks.payload import items_at, text_at

EVENT = "x-event-key"
WEB = "https://bitbucket.org/"


class Bitbucket(HubSigned):
    """Deliveries of Bitbucket Cloud."""

    name = "bitbucket"
    signature_header = "X-Hub-Signature"
    forms = False

    def notice(self, headers: Headers, payload: Payload) -> Notice:
        """Read the event's key and the repository."""
        event = only(headers, EVENT)
        path = text_at(payload, "repository", "full_name")
        page = text_at(payload, "repository", "links", "html", "href")
        spellings = tuple(spelling for spelling in (WEB + path if path else "", page) if spelling)
        return Notice(event, event == "repo:push", spellings, _ref(payload))

    def sample(self, remote: str) -> Sample:
        """Return a push."""
        change = {"old": None, "new": {"type": "branch", "name": "main"}}
        return Sample(
            {"X-Event-Key": "repo:push"}, {"push": {"changes": [change]}, "repository": {"links": {"html": {"href": remote.removesuffix(".git")}}}}
        )


def _ref(payload: Payload) -> str:
    """Return the name of the first ref that moved: its new state, or its old one when it is gone."""
    change = next(items_at(payload, "push", "changes"), None)
    return text_at(change, "new", "name") or text_at(change, "old", "name")
