"""Bitbucket Server and Data Center.

Signature: `X-Hub-Signature: sha256=<hex>`, HMAC-SHA256 over the raw body. Events: `X-Event-Key`, the payload's `eventKey` where it is absent;
`diagnostics:ping` is the button "Test connection". Older servers leave the repository's links out; then its project's key and its slug have to do, and
the secret alone says which server they are of.
https://confluence.atlassian.com/bitbucketserver/manage-webhooks-938025878.html
https://confluence.atlassian.com/bitbucketserver/event-payload-938025882.html
"""

from itertools import islice

from starlette.datastructures import Headers

from hooks.delivery import Notice, Payload, Sample
from hooks.hosts.bitbucket import EVENT
from hooks.hosts.hub_signature import HubSigned
from hooks.hosts.signatures import only
from hooks.payload import items_at, text_at

MAX_LINKS = 10
"""Of a payload whose sender is not known yet: a server names one address a scheme."""
REF_EVENTS = frozenset({"repo:refs_changed", "mirror:repo_synchronized"})


class BitbucketServer(HubSigned):
    """Deliveries of Bitbucket Server and Data Center."""

    name = "bitbucket-server"
    signature_header = "X-Hub-Signature"
    forms = False

    def notice(self, headers: Headers, payload: Payload) -> Notice:
        """Read the event's key and the repository."""
        event = only(headers, EVENT) or text_at(payload, "eventKey")
        spellings = tuple(href for link in islice(items_at(payload, "repository", "links", "clone"), MAX_LINKS) if (href := text_at(link, "href")))
        key, slug = text_at(payload, "repository", "project", "key"), text_at(payload, "repository", "slug")
        change = next(items_at(payload, "changes"), None)
        ref = text_at(change, "refId") or text_at(change, "ref", "id")
        return Notice(event, event in REF_EVENTS, spellings, ref, path="" if spellings or not key or not slug else f"{key}/{slug}")

    def sample(self, remote: str) -> Sample:
        """Return a push."""
        change = {"ref": {"id": "refs/heads/main"}, "refId": "refs/heads/main", "fromHash": "0" * 40, "toHash": "0" * 40, "type": "UPDATE"}
        payload = {"eventKey": "repo:refs_changed", "repository": {"links": {"clone": [{"href": remote, "name": "http"}]}}, "changes": [change]}
        return Sample({"X-Event-Key": "repo:refs_changed"}, payload)
