"""Bundles that nobody means well with, or that somebody mistyped: each loads, or is refused with file and line, soon, and never otherwise."""

import copy
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.bundle.loader import load_bundle
from engine.bundle.supported import check_supported
from engine.errors import EngineError
from engine.plan import MockOverride, PlanRequest, make_plan
from engine.validate import validate_bundle
from tests.bundle import keys_of_conversations, keys_of_models, keys_of_tools
from tests.bundle.conftest import ARENA, PROVIDER, SCENARIO, Write
from tests.bundle.key_sections import FILES, OF_KIND, SPECS, Section, put

C, S, P = "config.arena.yaml", "scenarios/hello.yaml", "providers/mock.yaml"
SECTIONS: list[Section] = [
    section for sections in (keys_of_conversations.SECTIONS, keys_of_models.SECTIONS, keys_of_tools.SECTIONS) for section in sections.values()
]
HOSTILE: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**63, 2**200, 1e308, -0.0, 1e-320),
    *("", " ", "a", "💥", "\u202e", "a/b", "..", "../x", "/etc/passwd", "\x00", "\n", "x" * 5000),
    *("{{x}}", "${x}", "{x}", "*", "__", "mcp__m__x", "(", "[", "(?i)a", "5s", "-1s", "99999999999999999999h", "https://[::1", "http://a:99999/"),
    *("user", "t", "tool", "p", "provider", "remote", "j", "crowd", "persona", "scenario", "s", "c"),
    *([], [[]], [None], [{}], {}, {"": ""}, {"a": {"b": [1]}}),
]
PLACED = re.compile(r"[^\n:]+:\d+: ")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({C: ARENA.replace("name: small", "name: 日本語 💥")}, "", id="a name beyond ASCII"),
        pytest.param({S: SCENARIO.replace("name: hello", "name: héllo wörld")}, "", id="an id beyond ASCII"),
        pytest.param({S: SCENARIO.replace("name: hello", 'name: "a\\u202eb"')}, f"{S}:3: cannot use the name", id="an id that turns its text"),
        pytest.param({S: SCENARIO.replace("name: hello", "name: " + "x" * 300)}, f"{S}:3: cannot use the name", id="an id without end"),
        pytest.param({C: "\ufeff" + ARENA.replace("\n", "\r\n")}, "", id="BOM and CRLF"),
        pytest.param({C: ARENA.encode("utf-16")}, f"{C}:1: cannot read the file: it is not UTF-8", id="UTF-16"),
        pytest.param({S: SCENARIO + "# \x07\n"}, f"{S}:13: cannot parse the file: it has a character", id="a control character, by its line"),
        pytest.param({S: SCENARIO + "# a\tb\n\t\n"}, f"{S}:14: cannot parse", id="a tab for a space"),
        pytest.param({C: ARENA + "---\nkind: Arena\n"}, f"{C}:15: cannot parse", id="two documents"),
        pytest.param({S: SCENARIO + "  context: *nope\n"}, f"{S}:13: cannot parse", id="an alias of nothing"),
        pytest.param({S: SCENARIO + "  context: &a [*a]\n"}, f"{S}:1: cannot read the file: it is nested", id="an alias of itself"),
        pytest.param({S: SCENARIO + "  <<: {streaming: true}\n"}, "", id="a merge of an object"),
        pytest.param({S: SCENARIO + "  <<: [1]\n"}, f"{S}:13: cannot merge", id="a merge of a number"),
        pytest.param({S: SCENARIO + "  ? [a]\n  : b\n"}, f"{S}:13: cannot read a key", id="a key that is a list"),
        pytest.param({S: SCENARIO + "  context: !!python/object:os.system x\n"}, f"{S}:13: cannot read a value with the tag", id="a tag of Python"),
        pytest.param({S: SCENARIO + "  context: " + "[" * 5000 + "\n"}, f"{S}:13: cannot parse", id="5,000 lists in each other"),
        pytest.param({S: SCENARIO + "  context: " + "[" * 300 + "]" * 300 + "\n"}, f"{S}:1: cannot read the file: it is nested", id="300 lists"),
        pytest.param({S: SCENARIO + "  trials: " + "9" * 400 + "\n"}, f"{S}:13: cannot read", id="a number of 400 digits"),
        pytest.param({S: SCENARIO + "  trials: 0x" + "f" * 400 + "\n"}, f"{S}:13: cannot read 'trials'", id="a number of 400 hexadecimal digits"),
        pytest.param({S: SCENARIO + "  trials: .inf\n"}, f"{S}:13: cannot read .inf", id="infinity"),
        pytest.param({S: SCENARIO.replace("patterns: [hi]", "patterns: []")}, "", id="an empty list"),
        pytest.param({C: ARENA.replace("scenarios/hello.yaml", "x" * 300)}, f"{C}:12: cannot read 'xxx", id="a file's name without end"),
        pytest.param({P: PROVIDER.replace("mock.yaml", "x" * 5000)}, f"{P}:7: cannot read 'xxx", id="a resource's name without end"),
        pytest.param({P: PROVIDER + "  pricing: {input_cost_per_1k: , output_cost_per_1k: 1}\n"}, "", id="a price that is left empty"),
        pytest.param(
            {S: SCENARIO.replace("type: contains", "type: llm_judge").replace("patterns: [hi]", "judge: 5")}, f"{S}:1", id="a judge that is a number"
        ),
        pytest.param(
            {S: SCENARIO.replace("type: contains", "type: exec").replace("patterns: [hi]", "eval: {a: []}")},
            f"{S}:1",
            id="a program that is an object",
        ),
        pytest.param(
            {C: ARENA + "  compositions: {c: {output_schema: {type: nothing}, steps: [{id: a, kind: prompt, prompt_task: assistant}]}}\n"},
            f"{C}:15: cannot read 'output_schema': it is not a JSON Schema",
            id="a schema that is none",
        ),
    ],
)
def test_an_odd_bundle_loads_or_says_where(write: Write, changes: Mapping[str, str | bytes], said: str) -> None:
    """Each has one thing that a careless reader would trip over; what is refused is refused at its file and line."""
    root = write(changes)
    refused = refusal_of(lambda: load_bundle(root))
    assert refused.startswith(said) if said else not refused


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where every value inside a value stands."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*path, key)
        yield from paths_of(inner, (*path, key))


@st.composite
def bundles(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the specs of a bundle: everything around some keys of the format, the keys, and hostile values in a few places of all that."""
    specs: dict[str, Any] = copy.deepcopy(dict(SPECS))
    for section in draw(st.lists(st.sampled_from(SECTIONS), min_size=1, max_size=2)):
        keys = draw(st.lists(st.sampled_from(sorted(section.keys)), max_size=3, unique=True))
        beside = "" if section.place.endswith(":") else "."
        for place, value in [*section.around.items(), *((f"{section.place}{beside}{key}", section.keys[key]) for key in keys)]:
            try:
                put(specs, place, copy.deepcopy(value))
            except (LookupError, TypeError, AttributeError, ValueError):
                continue  # what another section put there has no such place
    for _ in range(draw(st.integers(0, 3))):
        spec = specs[draw(st.sampled_from(sorted(specs)))]
        places = list(paths_of(spec))
        if places:
            *outer, last = draw(st.sampled_from(places))
            for step in outer:
                spec = spec[step]
            spec[last] = copy.deepcopy(draw(st.sampled_from(HOSTILE)))
    return specs


def write_specs(root: Path, specs: Mapping[str, Any]) -> None:
    """Write a bundle of these specs."""
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for kind, spec in specs.items():
        name = "config.arena" if kind == "arena" else kind
        (root / f"{name}.yaml").write_text(json.dumps({"apiVersion": "v", "kind": OF_KIND[kind], "metadata": {"name": kind}, "spec": spec}))


def refusal_of(use: Callable[[], object]) -> str:
    """Return what the engine says when it refuses, "" when it does not; anything else that is raised is no refusal."""
    try:
        use()
    except EngineError as error:
        return error.message
    return ""


def see_that_it_loads_or_says_where(specs: Mapping[str, Any]) -> None:
    """Load, validate and plan a bundle; only what the engine means to say may come out, and a refused bundle is refused at a line."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_specs(root, specs)
        validate_bundle(root)
        refused = refusal_of(lambda: load_bundle(root))
        assert not refused or PLACED.match(refused), refused
        if not refused:
            bundle = load_bundle(root)
            refusal_of(lambda: check_supported(bundle, make_plan(bundle, PlanRequest(mock=MockOverride()))))


QUICK = settings(max_examples=20)
LONG = settings(max_examples=800)
test_any_bundle_loads_or_says_where: Callable[[], None] = QUICK(given(bundles())(see_that_it_loads_or_says_where))
test_very_many_bundles_load_or_say_where: Callable[[], None] = pytest.mark.slow(LONG(given(bundles())(see_that_it_loads_or_says_where)))
