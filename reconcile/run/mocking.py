"""The annotations that replace every provider of a run by the mock."""

from collections.abc import Mapping

from engine.plan import MockOverride
from reconcile.kinds.names import MOCK_CONFIG, MOCK_PROVIDER


def mocked(annotations: Mapping[str, str]) -> bool:
    """Say whether a run's providers are replaced."""
    return annotations.get(MOCK_PROVIDER) == "true"


def mock_override(annotations: Mapping[str, str]) -> MockOverride | None:
    """Return what replaces the providers, None when nothing does."""
    return MockOverride(config=annotations.get(MOCK_CONFIG)) if mocked(annotations) else None
