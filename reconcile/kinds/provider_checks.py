"""What admission checks of a Provider's spec beyond its schema: its headers, whose names no rule of an API server can read at a bounded cost.

Pure functions from a spec to problems. Where no admission runs, since the object may be another product's, whoever reads it asks the same functions.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from engine.providers.headers import header_fault, is_credential
from reconcile.kinds.job_checks import INVALID_SPEC
from reconcile.kinds.problems import Problem


def provider_problems(spec: Mapping[str, Any]) -> list[Problem]:
    """Say what keeps a Provider from being used as it stands, each InvalidSpec. No header's value is in a message."""
    headers = spec.get("headers") or {}
    if not isinstance(headers, Mapping):
        return [Problem(INVALID_SPEC, "spec.headers", "headers must be a map from names to texts")]
    return [Problem(INVALID_SPEC, f"spec.headers[{name}]", message) for name, text in headers.items() for message in _of_header(str(name), text)]


def _of_header(name: str, text: object) -> Iterator[str]:
    if not isinstance(text, str):
        yield "its value must be a text: put it into quotes"
    elif fault := header_fault(name, text):
        yield f"cannot send this header: {fault}"
    elif is_credential(name, text):
        yield "it looks like a credential, which plans would hold in clear: put it into a Secret and name that in credential.secretRef"
