"""What admission checks of a Provider's spec beyond its schema: its headers, and the ranges of sampling, both as the engine owns them.

No rule of an API server can read the names of headers at a bounded cost. Pure functions from a spec to problems. Where no admission runs, since
the object may be another product's, whoever reads it asks the same functions.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from engine.providers.headers import header_fault, is_credential
from engine.providers.sampling_ranges import sampling_faults
from reconcile.kinds.job_checks import INVALID_SPEC
from reconcile.kinds.problems import Problem

_SAMPLING: Final = {"temperature": "temperature", "top_p": "topP"}
"""The engine's word for each field of `spec.defaults` that has a range."""


def provider_problems(spec: Mapping[str, Any]) -> list[Problem]:
    """Say what keeps a Provider from being used as it stands, each InvalidSpec. No header's value is in a message."""
    headers = spec.get("headers") or {}
    if not isinstance(headers, Mapping):
        return [Problem(INVALID_SPEC, "spec.headers", "headers must be a map from names to texts")]
    problems = [Problem(INVALID_SPEC, f"spec.headers[{name}]", said) for name, text in headers.items() for said in _of_header(str(name), text)]
    return [*problems, *_of_sampling(spec)]


def _of_header(name: str, text: object) -> Iterator[str]:
    if not isinstance(text, str):
        yield "its value must be a text: put it into quotes"
    elif fault := header_fault(name, text):
        yield f"cannot send this header: {fault}"
    elif is_credential(name, text):
        yield "it looks like a credential, which plans would hold in clear: put it into a Secret and name that in credential.secretRef"


def _of_sampling(spec: Mapping[str, Any]) -> Iterator[Problem]:
    defaults = spec.get("defaults")
    given = defaults if isinstance(defaults, Mapping) else {}
    for word, key in _SAMPLING.items():
        for _, fault in sampling_faults(str(spec.get("type")), {word: _number(given.get(key))}):
            yield Problem(INVALID_SPEC, f"spec.defaults.{key}", fault)


def _number(value: object) -> float | None:
    """Read a decimal text, as this kind writes numbers; None where it is none, of which others speak."""
    try:
        return float(str(value))
    except ValueError:
        return None
