"""Classifiers and embedding models that checks ask for: which provider of the bundle answers, and that it is there.

Owns that choice: the check's own word, else `defaults.inference`, else the only provider of the role. Must not ask anybody.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from engine.bundle.judge_names import asking_of
from engine.bundle.model import Bundle, Scenario
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


def models_needed(bundle: Bundle, chosen: "Iterable[Scenario | Evaluation] | None" = None) -> frozenset[str]:
    """Return the ids of all providers that label or embed for the checks of the `chosen` (None: all), or choose what of a context is relevant."""
    if not any(provider.role in SLOTS.values() for provider in bundle.providers.values()):
        return frozenset()
    subjects: tuple[Scenario | Evaluation, ...] = (*bundle.scenarios.values(), *bundle.evals.values()) if chosen is None else tuple(chosen)
    asked = (_needed(bundle, kind, params) for _, kind, params in asking_of(bundle, subjects))
    policies = (subject.context_policy for subject in subjects if isinstance(subject, Scenario))
    by_likeness = any(policy and policy.strategy == "relevance" for policy in policies)
    return frozenset(name for name in (*asked, model_for(bundle, "embedder") if by_likeness else "") if name)


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


def _needed(bundle: Bundle, kind: str, params: Mapping[str, Any]) -> str:
    from engine.checks import model_slot_of  # noqa: PLC0415 - as above

    slot = model_slot_of(kind)
    return model_for(bundle, slot, next((str(params[key]) for key in _NAME_KEYS if params.get(key)), "")) if slot else ""
