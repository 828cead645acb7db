"""Classifiers and embedding models that checks ask for: which provider of the bundle answers, and that it is there.

Owns that choice: the check's own word, else `defaults.inference`, else the only provider of the role. Must not ask anybody.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from engine.bundle.contexts import ContextPolicy, Relevance
from engine.bundle.judge_names import asking_of
from engine.bundle.model import Bundle, Provider, Scenario
from engine.bundle.problems import Problems, did_you_mean, shown

if TYPE_CHECKING:
    from engine.bundle.evaluations import Evaluation

SLOTS: Mapping[str, str] = {
    "text_classifier": "inference",
    "audio_classifier": "inference",
    "image_classifier": "inference",
    "video_classifier": "inference",
    "embedder": "embedding",
}
"""The keys of `defaults.inference`, each with the role that its provider has."""

_NAME_KEYS = ("classifier_id", "embedder", "provider")


def model_for(bundle: Bundle, slot: str, named: str = "") -> str:
    """Return the id of the provider that answers for a slot; "" when the bundle has none, or several and no word which."""
    if named or (named := bundle.arena.inference.get(slot, "")):
        return named
    found = [provider.id for provider in bundle.providers.values() if provider.role == SLOTS[slot]]
    return found[0] if len(found) == 1 else ""


def embedder_of(bundle: Bundle, policy: ContextPolicy) -> str:
    """Return the id of the provider that says what of a context is relevant: the one of the policy's own provider type and model, where it names them.

    "" when there is none, or when several could be meant.
    """
    wanted = policy.relevance
    if not wanted.provider and not wanted.model:
        return model_for(bundle, "embedder")
    found = [provider.id for provider in bundle.providers.values() if provider.role == SLOTS["embedder"] and _is_meant(provider, wanted)]
    preferred = model_for(bundle, "embedder")
    return preferred if preferred in found else found[0] if len(found) == 1 else ""


def _is_meant(provider: Provider, wanted: Relevance) -> bool:
    stands_in = provider.type == "mock"
    return stands_in or ((not wanted.provider or provider.type == wanted.provider) and (not wanted.model or provider.model == wanted.model))


def models_needed(bundle: Bundle, chosen: "Iterable[Scenario | Evaluation] | None" = None) -> frozenset[str]:
    """Return the ids of all providers that label or embed for the checks of the `chosen` (None: all), or choose what of a context is relevant."""
    if not any(provider.role in SLOTS.values() for provider in bundle.providers.values()):
        return frozenset()
    subjects: tuple[Scenario | Evaluation, ...] = (*bundle.scenarios.values(), *bundle.evals.values()) if chosen is None else tuple(chosen)
    asked = (_needed(bundle, kind, params) for _, kind, params in asking_of(bundle, subjects))
    policies = (subject.context_policy for subject in subjects if isinstance(subject, Scenario))
    by_likeness = (embedder_of(bundle, policy) for policy in policies if policy is not None and policy.strategy == "relevance")
    return frozenset(name for name in (*asked, *by_likeness) if name)


def check_models(bundle: Bundle, problems: Problems) -> None:
    """Add a problem for every check whose model is not there, or of which several could be meant."""
    from engine.checks import model_slot_of  # noqa: PLC0415 - only bundles that have checks need them

    for place, kind, params in asking_of(bundle, (*bundle.scenarios.values(), *bundle.evals.values())):
        slot = model_slot_of(kind)
        if not slot:
            continue
        name, role = _needed(bundle, kind, params), SLOTS[slot]
        fitting = [provider.id for provider in bundle.providers.values() if provider.role == role]
        if name and name not in fitting:
            problems.error(place, f"check '{kind}' asks provider '{shown(name)}', which is none of role {role}", did_you_mean(name, fitting))
        elif not name and fitting:
            problems.error(place, f"check '{kind}' does not say which provider of role {role} it asks", f"set defaults.inference.{slot}")
        elif not name:
            problems.warning(place, f"check '{kind}' is skipped, and so passes: the bundle has no provider of role {role}")


def check_relevance(bundle: Bundle, problems: Problems) -> None:
    """Add a problem for every context policy whose embedding model the bundle does not have, although it has others."""
    fitting = [provider.id for provider in bundle.providers.values() if provider.role == SLOTS["embedder"]]
    for scenario in bundle.scenarios.values() if fitting else ():
        policy = scenario.context_policy
        if policy is not None and policy.strategy == "relevance" and not embedder_of(bundle, policy):
            wanted = " ".join(word for word in (policy.relevance.provider, policy.relevance.model) if word)
            message = f"the context policy of scenario '{scenario.id}' measures likeness by {wanted or 'an embedding model'}"
            cause = "which no provider of role embedding is" if wanted else "and does not say which provider of role embedding it is"
            problems.error(policy.location, f"{message}, {cause}", f"providers of role embedding are: {', '.join(fitting)}")


def _needed(bundle: Bundle, kind: str, params: Mapping[str, Any]) -> str:
    from engine.checks import model_slot_of  # noqa: PLC0415 - as above

    slot = model_slot_of(kind)
    return model_for(bundle, slot, next((str(params[key]) for key in _NAME_KEYS if params.get(key)), "")) if slot else ""
