"""Which projects take deliveries of a git host, and with which secret: read from the cluster for every delivery.

Nothing is kept. A secret that is rotated or withdrawn counts at once, no secret stays in memory, and a read costs a fraction of a millisecond in local
mode and one request in a cluster, where only single Secrets are read by name, never a list of them.
"""

import base64
import binascii
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from reconcile.cluster.port import ARENA_PROJECT, SECRET, Cluster, Object, ObjectKey
from reconcile.errors import NotFound
from reconcile.kinds.project import ArenaProjectSpec, External, Webhook

NOBODYS_SECRET: Final = "webhook"  # noqa: S105 - the name of a Secret, looked for when there is no project


@dataclass(frozen=True, slots=True)
class Subscription:
    """A project whose deliveries one git host signs with one key of a Secret.

    `exists`: False for a stand-in, which is read and verified like any other, so that its answer takes the same steps and the same time.
    """

    project: Object = field(repr=False)
    key: ObjectKey
    remote: str
    secret_name: str
    secret_key: str
    suspended: bool
    exists: bool = True

    @property
    def secret_place(self) -> tuple[str, str, str]:
        """Where the secret is: namespace, name, key. Projects may share one."""
        return self.key.namespace, self.secret_name, self.secret_key


class SecretUnusable(Exception):
    """There is no secret to verify with. The text says why, and what to do."""


class Subscriptions:
    """The projects and Secrets of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def find(self, host: str, key: ObjectKey) -> Subscription:
        """Return the project's subscription to the host; a stand-in when there is no such project, or it takes no deliveries of this host."""
        try:
            project, exists = await self._cluster.get(ARENA_PROJECT, key.namespace, key.name), True
        except NotFound:
            project, exists = _project_of_nobody(host, key), False
        found = _subscription(project, host)
        if found is not None and exists:
            return found
        return Subscription(project, key, remote="", secret_name=NOBODYS_SECRET, secret_key=NOBODYS_SECRET, suspended=False, exists=False)

    async def of_host(self, host: str) -> list[Subscription]:
        """Return every project that takes deliveries of the host, in all namespaces."""
        listing = await self._cluster.list(ARENA_PROJECT)
        return [found for project in listing.items if (found := _subscription(project, host)) is not None]

    async def secret(self, subscription: Subscription) -> bytes:
        """Return the secret.

        Raises:
            SecretUnusable: there is none.
        """
        namespace, name, key = subscription.secret_place
        try:
            secret = await self._cluster.get(SECRET, namespace, name)
        except NotFound:
            secret = None
        return secret_value(secret, name, key)


def unknown_secret() -> bytes:
    """Return a secret that nobody knows, to verify against where there is none: the answer then takes the same steps and the same time."""
    return secrets.token_bytes(32)


def secret_value(secret: Object | None, name: str, key: str) -> bytes:
    """Return the value of one key of a Secret, None when there is no Secret, without the line's end that an editor or `echo` leaves; never empty.

    Raises:
        SecretUnusable: there is none.
    """
    if secret is None:
        raise SecretUnusable(f"Secret '{name}' with the webhook's secret does not exist; create it with the key '{key}'")
    data = secret.get("data") or {}
    if key not in data:
        raise SecretUnusable(f"Secret '{name}' has no key '{key}' for the webhook's secret; add it")
    value = _decoded(data, key).rstrip(b"\r\n")
    if not value:
        raise SecretUnusable(f"key '{key}' of Secret '{name}' is empty: no delivery is ever verified by it; set a long random value")
    return value


def _project_of_nobody(host: str, key: ObjectKey) -> Object:
    webhook = {"host": host, "secretRef": {"name": NOBODYS_SECRET, "key": NOBODYS_SECRET}}
    return {"metadata": {"namespace": key.namespace, "name": key.name}, "spec": {"external": {"url": "https://localhost/", "webhook": webhook}}}


def _subscription(project: Object, host: str) -> Subscription | None:
    external = _external(project)
    webhook: Webhook | None = external.webhook if external is not None else None
    if external is None or webhook is None or webhook.host != host:
        return None
    reference = webhook.secret_ref
    return Subscription(project, ObjectKey.of(project), external.url, reference.name, reference.key, suspended=project["spec"].get("suspend") is True)


def _external(project: Object) -> External | None:
    try:
        return ArenaProjectSpec.model_validate(project["spec"]).external
    except (ValidationError, KeyError):  # stored before today's rules: its controller says so
        return None


def _decoded(data: Mapping[str, Any], key: str) -> bytes:
    try:
        return base64.b64decode(data[key])
    except (binascii.Error, TypeError, ValueError):
        return b""
