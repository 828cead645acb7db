"""Provider in local mode: whether the Secrets that it names hold its keys."""

from datetime import timedelta
from typing import Final

from reconcile.cluster.core_kinds import value_in
from reconcile.cluster.port import PROVIDER, SECRET, Object, ResourceKind
from reconcile.errors import NotFound
from reconcile.kinds.conditions import ConditionType
from reconcile.kinds.reasons import NeighbourReason
from reconcile.provider_spec import ProviderSpec, ProviderUnreadable, SecretWish, provider_spec
from reconcile.runtime.reconciler import Pass, Result, Silent

LOOK_AGAIN: Final = timedelta(seconds=30)
"""Secrets are not followed, so one that is missing is looked for so often."""

_KEYLESS: Final = ("mock", "ollama", "vllm")
_Found = tuple[str, str]


class ProviderReconciler:
    """Says in the conditions of a Provider whether a run would find its keys, and in its phase what follows."""

    kind: ResourceKind = PROVIDER

    async def reconcile(self, scope: Pass) -> Result:
        """Do one pass."""
        scope.status["observedGeneration"] = scope.generation
        scope.condition(ConditionType.ENDPOINT_REACHABLE.value, "Unknown", NeighbourReason.ENDPOINT_NOT_CHECKED, "no request was sent")
        try:
            found = provider_spec(scope.key.name, scope.obj["spec"], 0)
        except ProviderUnreadable as error:
            scope.status["phase"] = "Error"
            scope.condition(ConditionType.CREDENTIAL_CONFIGURED.value, "False", NeighbourReason.PROVIDER_UNREADABLE, str(error))
            return Silent(final=True)
        missing = [cause for wish in found.wishes.values() if (cause := await _missing(scope, wish))]
        if found.wishes:
            reason, message = missing[0] if missing else (NeighbourReason.CREDENTIAL_FOUND, "")
            for condition in (ConditionType.SECRET_FOUND.value, ConditionType.CREDENTIAL_CONFIGURED.value):
                scope.condition(condition, "False" if missing else "True", reason, message)
        else:
            scope.status["conditions"] = [each for each in scope.status["conditions"] if each["type"] != ConditionType.SECRET_FOUND.value]
            _say_where_its_key_is(scope, found)
        scope.status["phase"] = "Error" if missing else "Ready"
        return Silent(LOOK_AGAIN if found.wishes else None)


async def _missing(scope: Pass, wish: SecretWish) -> _Found | None:
    """Return what a Secret lacks, as reason and message; None when it has the key."""
    try:
        secret: Object = await scope.cluster.get(SECRET, scope.key.namespace, wish.secret)
    except NotFound:
        return NeighbourReason.SECRET_NOT_FOUND, f"Secret '{wish.secret}' does not exist"
    if any(value_in(secret, key) for key in wish.keys):
        return None
    return NeighbourReason.SECRET_KEY_NOT_FOUND, f"Secret '{wish.secret}' has no key {' or '.join(repr(key) for key in wish.keys)}"


def _say_where_its_key_is(scope: Pass, found: ProviderSpec) -> None:
    kind, own = found.spec["type"], found.spec.get("credential") or {}
    if kind in _KEYLESS and not own:
        scope.condition(ConditionType.CREDENTIAL_CONFIGURED.value, "True", NeighbourReason.CREDENTIAL_NOT_REQUIRED, "")
        return
    named = own.get("credential_env") or own.get("credential_file") or "the vendor's usual variable, or an identity of its platform"
    scope.condition(ConditionType.CREDENTIAL_CONFIGURED.value, "Unknown", NeighbourReason.CREDENTIAL_OF_WORKERS, f"workers must have {named}")
