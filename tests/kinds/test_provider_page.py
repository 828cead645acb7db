"""What docs/providers.md shows is what the kinds take."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.providers.credentials import USUAL
from reconcile.kinds.admission import admit
from reconcile.kinds.catalog import CATALOG
from reconcile.kinds.job import provider_groups
from reconcile.kinds.provider import ProviderSpec

PAGE = (Path(__file__).parents[2] / "docs" / "providers.md").read_text(encoding="utf-8")
OBJECTS: list[dict[str, Any]] = [obj for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) for obj in yaml.safe_load_all(block)]


@pytest.mark.parametrize("obj", [obj for obj in OBJECTS if obj["kind"] in CATALOG], ids=lambda obj: str(obj["kind"]))
def test_the_example_is_taken(obj: dict[str, Any]) -> None:
    """A reader who copies it gets no refusal and no warning."""
    assert admit(obj["kind"], obj, None).warnings == []


def test_the_example_shows_both_kinds_of_entries() -> None:
    """A job names a Provider, an agent and a judge."""
    (job,) = [obj for obj in OBJECTS if obj["kind"] == "ArenaJob"]
    groups = provider_groups(job["spec"]["providers"])
    assert {name: len(entries) for name, entries in groups.items()} == {"default": 2, "judge": 1}


def test_every_field_and_key_is_told() -> None:
    """The page names each field of a Provider and each key that is looked for."""
    fields = {info.alias or name for name, info in ProviderSpec.model_fields.items()} - {"mock"}
    told = set(re.findall(r"[A-Za-z_]+", PAGE))
    assert fields <= told
    assert {key for keys in USUAL.values() for key in keys} <= told
