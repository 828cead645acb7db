"""How API servers are told of the webhook: its ValidatingWebhookConfiguration, and whom they are to trust.

Owns what is sent to the webhook and what never is (docs/adr/0010). Must not know how certificates are made.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

import structlog

from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, GROUP, VERSION, Cluster, Object, ResourceKind
from reconcile.errors import Conflict, NotFound

WEBHOOK_CONFIGURATION: Final = ResourceKind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
    has_status=False,
)
"""Not among the kinds that a store serves: local mode calls no webhook, so it takes no such object."""

CHECKED: Final = (ARENA_PROJECT, ARENA_JOB, ARENA_RUN)
"""Kinds that are always ours. The neighbours may be another product's, and its webhook's to check."""
TIMEOUT_S: Final = 5
_NAME = f"admission.arena.{GROUP}"
_INJECTED = "cert-manager.io/inject-"
_TRIES = 5

_CONDITIONS: Final[Mapping[str, str]] = {
    "spec-is-written": "request.operation == 'CREATE' || object.spec != oldObject.spec",
    "not-being-deleted": "!has(object.metadata.deletionTimestamp)",
    "not-being-suspended": "request.operation == 'CREATE' || !has(object.spec.suspend) || !object.spec.suspend "
    "|| (has(oldObject.spec.suspend) && oldObject.spec.suspend)",
    "not-being-cancelled": "request.operation == 'CREATE' || !has(object.spec.cancelled) || !object.spec.cancelled "
    "|| (has(oldObject.spec.cancelled) && oldObject.spec.cancelled)",
}

log = structlog.get_logger(__name__)


def webhook_configuration(name: str, client: Mapping[str, Any]) -> Object:
    """Return the ValidatingWebhookConfiguration of that name; `client` says where the webhook is: `service` or `url`, and maybe `caBundle`."""
    webhook = {
        "name": _NAME,
        "clientConfig": dict(client),
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": TIMEOUT_S,
        "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]},
        "rules": [
            {
                "apiGroups": [GROUP],
                "apiVersions": [VERSION],
                "operations": ["CREATE", "UPDATE"],
                "resources": [kind.plural for kind in CHECKED],
                "scope": "Namespaced",
            }
        ],
        "matchConditions": [{"name": name, "expression": expression} for name, expression in _CONDITIONS.items()],
    }
    kind = WEBHOOK_CONFIGURATION
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "webhooks": [webhook]}


def trusting(configuration: Object, authorities: bytes) -> Object | None:
    """Return the merge patch that makes a configuration trust exactly these authorities; None if it does, or if cert-manager sees to it."""
    if any(name.startswith(_INJECTED) for name in configuration["metadata"].get("annotations") or ()):
        return None
    bundle = base64.b64encode(authorities).decode()
    webhooks = configuration.get("webhooks") or []
    if all((webhook.get("clientConfig") or {}).get("caBundle") == bundle for webhook in webhooks):
        return None
    return {"webhooks": [{**webhook, "clientConfig": {**(webhook.get("clientConfig") or {}), "caBundle": bundle}} for webhook in webhooks]}


class Registration:
    """The configuration in the cluster, made by whoever installs Arena. We write nothing of it but whom to trust."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name

    async def trust(self, authorities: bytes) -> bool:
        """Make API servers trust exactly these authorities (PEM); say whether that had to be written. Without a configuration nothing is.

        Raises:
            ClusterError: the store does not answer, or refuses.
        """
        for number in range(1, _TRIES + 1):
            try:
                return await self._write(authorities)
            except NotFound:
                log.debug("admission.not_registered", configuration=self._name)
                break
            except Conflict:
                if number == _TRIES:
                    raise
        return False

    async def _write(self, authorities: bytes) -> bool:
        stored = await self._cluster.get(WEBHOOK_CONFIGURATION, None, self._name)
        patch = trusting(stored, authorities)
        if patch is None:
            return False
        await self._cluster.patch(WEBHOOK_CONFIGURATION, None, self._name, patch, resource_version=stored["metadata"]["resourceVersion"])
        log.info("admission.trusted", configuration=self._name)
        return True
