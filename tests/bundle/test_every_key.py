"""No key of the format is silently ignored: each has an effect, is refused, or is spoken of."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.bundle.arena_reader import ARENA_TABLE
from engine.bundle.eval_reader import EVAL_TABLE
from engine.bundle.fields import Table
from engine.bundle.loader import read_bundle
from engine.bundle.model import Bundle, Location
from engine.bundle.problems import Severity
from engine.bundle.prompt_reader import PERSONA_TABLE, PROMPT_TABLE, TOOL_TABLE
from engine.bundle.provider_reader import PROVIDER_TABLE
from engine.bundle.scenario_reader import SCENARIO_TABLE
from engine.bundle.supported import needs_of
from engine.errors import EngineError
from engine.plan import PlanRequest, make_plan
from tests.bundle import keys_of_conversations, keys_of_models, keys_of_tools
from tests.bundle.key_sections import Section, written

SECTIONS: Mapping[str, Section] = {**keys_of_conversations.SECTIONS, **keys_of_models.SECTIONS, **keys_of_tools.SECTIONS}
CASES = [pytest.param(name, key, id=f"{name}/{key}") for name, section in SECTIONS.items() for key in section.keys]
DOCUMENTARY: Mapping[str, str] = {
    "5.1 prompt/version": "the author's number",
    "5.1 variables[]/type": "values are text",
    "5.1 variables[]/example": "an example is for people",
    "5.6 workflow/version": "there is one",
    "5.6 compositions/version": "there is one",
    "5.6 artifacts/type": "a word for people",
}
"""Keys that are for whoever reads the file: they ask for nothing."""

FOR_PEOPLE = frozenset(("description", "timeout_ms", "system_prompt"))
"""Keys of these objects that other sections here ask about, or that describe."""

_READERS = re.compile(
    r"(?:_reader|fields|model|schemas|loader|contexts|prompt_parts|roles|services|workflows|compositions|evaluations|ignored)\.py\Z"
)
_TAKEN = re.compile(r"\.([a-z_0-9]+)\b(?!\()|\"([a-z_0-9]+)\"")


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded:
    """A bundle that was read, None when it is refused, and what was said of it: each a sentence, and whether it is a refusal."""

    bundle: Bundle | None
    said: set[tuple[bool, str]]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Loaded]:
    """Return how a section's bundle is read without any of its keys."""
    return cache(lambda name: _read(tmp_path_factory.mktemp("before"), SECTIONS[name], {}))


@pytest.mark.parametrize(("name", "key"), CASES)
def test_no_key_is_silently_ignored(tmp_path: Path, before: Callable[[str], Loaded], name: str, key: str) -> None:
    """A bundle with the key is refused, or spoken of by name, or read into something that the engine looks at."""
    plain, after = before(name), _read(tmp_path, SECTIONS[name], {key: SECTIONS[name].keys[key]})
    assert plain.bundle is not None, plain.said
    if any(is_refusal or f"'{key}'" in message for is_refusal, message in after.said - plain.said):
        return
    assert after.bundle is not None
    changed = set(_differences(plain.bundle, after.bundle))
    assert f"{name}/{key}" in DOCUMENTARY or changed & _looked_at(), f"'{key}' changes {changed or 'nothing'}, and nobody looks at that"


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("1.2 arena", ARENA_TABLE),
        ("2.1 scenario", SCENARIO_TABLE),
        ("3.8 eval", EVAL_TABLE),
        ("4.1 provider", PROVIDER_TABLE),
        ("5.1 prompt", PROMPT_TABLE),
        ("6.2 tool", TOOL_TABLE),
        ("7.1 persona", PERSONA_TABLE),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_key_that_is_read_is_asked_about(name: str, table: Table) -> None:
    """The lists leave out no key that the readers know."""
    assert table.keys.keys() - set(SECTIONS[name].keys) <= FOR_PEOPLE


@pytest.mark.parametrize("name", ["1.2 arena", "1.3 defaults", "2.1 scenario", "2.2 turns[]", "4.1 provider", "5.1 prompt", "6.2 tool"])
def test_every_key_of_the_document_is_asked_about(name: str) -> None:
    """The lists leave out no key of the document's tables."""
    document = Path(__file__).parents[2] / "../shared/spec/promptkit-format.md"
    if not document.is_file():
        pytest.skip("the description of the format is not there")
    section = document.read_text(encoding="utf-8").partition(f"### {name.split(maxsplit=1)[0]} ")[2].partition("\n### ")[0]
    rows = [re.sub(r"\{[^}]*\}", "", line.split("|")[1]) for line in section.splitlines() if line.startswith("| ")][1:]
    keys = {re.sub(r"[^a-z0-9_].*", "", word.strip()) for row in rows for word in row.split(",")} - {""}
    assert keys
    assert keys - set(SECTIONS[name].keys) <= FOR_PEOPLE


def _read(root: Path, section: Section, change: Mapping[str, Any]) -> Loaded:
    bundle, problems = read_bundle(written(root, section, change))
    said = {(problem.severity is Severity.ERROR, problem.message) for problem in problems.all}
    if bundle is None or problems.has_errors:
        return Loaded(None, said)
    try:
        plan = make_plan(bundle, PlanRequest())
    except EngineError as error:
        return Loaded(None, said | {(True, error.message)})
    refused = {(True, message) for _, message in needs_of(bundle, plan)}
    return Loaded(bundle, said | refused | {(False, message) for message in plan.warnings})


def _differences(one: Any, other: Any, name: str = "") -> Iterator[str]:
    """Yield the names, of fields and of keys, under which two bundles differ; where something stands is no difference."""
    if isinstance(one, Location) or name == "uses":
        return
    alike = type(one) is type(other)
    inner = list(_differences_inside(one, other, name)) if alike else []
    yield from inner
    whole = isinstance(one, Mapping) or dataclasses.is_dataclass(one)
    if (inner and isinstance(one, Mapping) and name != "spec") or (not inner and one != other and not (alike and whole)):
        yield name


def _differences_inside(one: Any, other: Any, name: str) -> Iterator[str]:
    if dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            if field.name not in ("root", "warnings"):
                yield from _differences(getattr(one, field.name), getattr(other, field.name), field.name)
    elif isinstance(one, Mapping):
        for key in one.keys() | other.keys():
            yield from _differences(one.get(key, ...), other.get(key, ...), str(key))
    elif isinstance(one, tuple | list) and len(one) == len(other):
        for left, right in zip(one, other, strict=True):
            yield from _differences(left, right, name)


@cache
def _looked_at() -> frozenset[str]:
    """Return every name that a module of the engine, other than those that read bundles, takes from a value or looks up."""
    texts = [path.read_text(encoding="utf-8") for path in Path(engine.__path__[0]).rglob("*.py") if not _READERS.search(path.name)]
    return frozenset(name for text in texts for found in _TAKEN.findall(text) for name in found if name)
