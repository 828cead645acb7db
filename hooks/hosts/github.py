"""GitHub, github.com and Enterprise Server.

Signature: `X-Hub-Signature-256: sha256=<hex>`, HMAC-SHA256 over the raw body, whether it is JSON or a form; the older `X-Hub-Signature` (SHA-1) is
not looked at. Events: `X-GitHub-Event`. Payloads are capped at 25 MB, and more than three tags pushed at once cause no event, so a poll finds them.
https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
https://docs.github.com/en/webhooks/webhook-events-and-payloads
"""

from starlette.datastructures import Headers

from hooks.delivery import Notice, Payload, Sample
from hooks.hosts.hub_signature import HubSigned
from hooks.hosts.signatures import only
from hooks.payload import text_at, texts_at

EVENT = "x-github-event"
REF_EVENTS = frozenset({"push", "create", "delete"})
REPOSITORY_KEYS = ("clone_url", "ssh_url", "html_url", "git_url", "svn_url", "url")
NO_COMMIT = "0" * 40


class GitHub(HubSigned):
    """Deliveries of GitHub."""

    name = "github"
    signature_header = "X-Hub-Signature-256"
    forms = True

    def notice(self, headers: Headers, payload: Payload) -> Notice:
        """Read the event's name and the repository."""
        event = only(headers, EVENT)
        return Notice(event, event in REF_EVENTS, texts_at(payload, ("repository",), REPOSITORY_KEYS), text_at(payload, "ref"))

    def sample(self, remote: str) -> Sample:
        """Return a push."""
        return Sample({"X-GitHub-Event": "push"}, push_of(remote))


def push_of(remote: str) -> Payload:
    """Return the least of a push that GitHub and those who follow its form send."""
    return {"ref": "refs/heads/main", "before": NO_COMMIT, "after": NO_COMMIT, "repository": {"clone_url": remote}}
