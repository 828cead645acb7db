"""Specs of providers under the mock override: what replaces a provider that is tested, and one that serves a judge or a self-play role.

Owns that rule. Under the override no provider stays real. Must not know how a spec becomes a connection, nor plans.
"""

from collections.abc import Mapping
from typing import Any

from engine.bundle.provider_reader import JOB_ANSWERS

Spec = Mapping[str, Any]


def mock_subject(spec: Spec, config: str | None) -> dict[str, Any]:
    """Return the mock that is tested in place of `spec`; it answers from the response file `config`, or with None from the provider's own."""
    own = spec.get("additional_config") or {}
    answers = {key: value for key, value in own.items() if spec.get("type") == "mock" or key == "mock_config"}
    if config is not None:
        answers.pop(JOB_ANSWERS, None)
        answers["mock_config"] = config
    kept = {key: spec[key] for key in ("id", "model", "role", "capabilities") if key in spec}
    return {**kept, "type": "mock", "additional_config": answers}


def mock_server(spec: Spec, config: str | None) -> dict[str, Any]:
    """Return what serves a judge or a self-play role in place of `spec`.

    A provider that is a mock already stays as it is, its own response file included: `config` was written for the subjects, and nothing of it is
    real. Any other becomes a mock as a subject does.
    """
    return dict(spec) if spec.get("type") == "mock" else mock_subject(spec, config)
