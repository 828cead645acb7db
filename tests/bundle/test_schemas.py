"""JSON Schemas for editors: valid themselves, offline, and of one mind with the loader."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

import arena.cli
from engine.bundle.loader import load_bundle
from engine.bundle.schemas import KINDS, MOCK_RESPONSES, kind_schema
from engine.bundle.starter import starter_files
from engine.checks import ALIASES, known_types
from engine.errors import BundleInvalid

CORPUS = Path(__file__).parents[2] / "../shared/corpus/promptkit"
SPEC = {
    "description": "d",
    "task_type": "t",
    "turns": [{"role": "user", "content": "hi", "assertions": [{"type": "contains", "params": {"patterns": ["x"]}}]}],
}


def scenario(**changes: Any) -> dict[str, Any]:
    """Return a scenario with other keys in its spec."""
    return {"apiVersion": "promptkit.altairalabs.ai/v1alpha1", "kind": "Scenario", "metadata": {"name": "s"}, "spec": SPEC | changes}


def checked(**check: Any) -> dict[str, Any]:
    """Return a scenario with this check."""
    return scenario(turns=[{"role": "user", "content": "hi", "assertions": [check]}])


def faults(kind: str, content: Any) -> list[str]:
    """Return what a schema has against a file."""
    return [error.message for error in Draft202012Validator(kind_schema(kind)).iter_errors(content)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_one(kind: str) -> None:
    """Valid by its own draft, and it refers to nothing but itself."""
    schema = kind_schema(kind)
    Draft202012Validator.check_schema(schema)
    references = re.findall(r'"\$ref": "([^"]*)"', json.dumps(schema))
    assert all(reference.removeprefix("#/$defs/") in schema["$defs"] for reference in references)


def test_the_starter_fits() -> None:
    """What `arena init` writes has no fault."""
    for name, content in starter_files().items():
        manifest = json.loads(json.dumps(yaml.safe_load(content)))  # in JSON all keys are texts
        kind = manifest.get("kind", MOCK_RESPONSES)
        assert not faults(kind, manifest), name


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (scenario(trails=3), "trails"),
        (scenario(trials=0), "0 is less than the minimum of 1"),
        (scenario(turns="hi"), "'hi' is not of type 'array'"),
        ({**scenario(), "kind": "Provider"}, "'Scenario' was expected"),
        ({**scenario(), "metadata": {}}, "'name' is a required property"),
        (checked(type="contians"), "'contians' is not one of"),
        (checked(type="contains", params={"pattern": ["x"]}), "pattern"),
        (checked(type="contains", params={"patterns": ["x"]}, min_score=1), "min_score"),
    ],
    ids=["a misspelt key", "too few", "no list", "another kind", "no name", "a misspelt check", "a misspelt parameter", "min_score beside type"],
)
def test_what_a_run_refuses_an_editor_marks(content: dict[str, Any], cause: str) -> None:
    """Keys, types, values, and the parameters of each check."""
    assert any(cause in fault for fault in faults("Scenario", content)), faults("Scenario", content)


@pytest.mark.parametrize(
    "content",
    [
        checked(type="contains", params={"patterns": ["x"], "min_score": 0.5, "message": "m"}, message="m"),
        checked(type="assertion", params={"eval_type": "contains", "eval_params": {"patterns": ["x"]}}),
        scenario(turns=[{"role": "user", "parts": [{"type": "image", "media": {"url": "https://a", "mime_type": "image/png"}}]}]),
    ],
    ids=["bounds inside params", "a wrapped check", "parts"],
)
def test_what_a_run_takes_an_editor_leaves(content: dict[str, Any]) -> None:
    """An editor that marks what is right is switched off."""
    assert not faults("Scenario", content)


def test_every_check_has_its_parameters() -> None:
    """Each type, under each of its names."""
    schema = kind_schema("Scenario")
    rules = schema["$defs"]["check"]["allOf"]
    assert {name for rule in rules for name in rule["if"]["properties"]["type"]["enum"]} == known_types() - {"assertion"}
    assert set(ALIASES) <= set(schema["$defs"]["check"]["properties"]["type"]["enum"])


def test_a_key_without_effect_is_marked() -> None:
    """As deprecated, with the reason that a run gives."""
    key = kind_schema("Arena")["properties"]["spec"]["properties"]["defaults"]["properties"]["fail_on"]
    assert key["deprecated"]
    assert "has no effect" in key["description"]


def manifests(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the manifests of a bundle that have a kind of ours."""
    for path in sorted(folder.rglob("*.yaml")):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(content, dict) and content.get("kind") in KINDS:
            yield path, content


@pytest.mark.slow
@pytest.mark.parametrize("bundle", sorted(path.name for path in CORPUS.iterdir()) if CORPUS.is_dir() else ["the corpus is not here"])
def test_real_bundles_fit(bundle: str) -> None:
    """Every file of a bundle that loads has no fault."""
    if not CORPUS.is_dir():
        pytest.skip(bundle)
    try:
        load_bundle(CORPUS / bundle)
    except BundleInvalid:
        pytest.skip(f"{bundle} is refused")
    for path, content in manifests(CORPUS / bundle):
        assert not faults(content["kind"], content), path


def test_the_command_prints_a_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """By a kind's name in any case; without one, the kinds; an unknown one is a usage error."""
    for words, code in ((["schema", "scenario"], 0), (["schema"], 0), (["schema", "Pod"], 2)):
        with pytest.raises(SystemExit) as ended:
            arena.cli.main(words)
        assert ended.value.code == code
        printed = capsys.readouterr()
        if words == ["schema"]:
            assert printed.out.split() == list(KINDS)
        elif code == 0:
            assert json.loads(printed.out)["title"] == "Scenario"
        else:
            assert "cannot find a schema of 'Pod'" in printed.err


@pytest.mark.parametrize(("broken", "code"), [(False, 0), (True, 2)])
def test_problems_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str], *, broken: bool, code: int) -> None:
    """`arena validate -o json` says whether a bundle can run, and what is wrong with it, with file and line."""
    for name, content in starter_files().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content.replace(b"task_type", b"tsk_type") if broken and "prompt" in name else content)
    with pytest.raises(SystemExit) as ended:
        arena.cli.main(["validate", str(tmp_path), "-o", "json"])
    assert ended.value.code == code
    printed = json.loads(capsys.readouterr().out)
    assert printed["valid"] is not broken
    assert [problem["severity"] for problem in printed["problems"] if problem["severity"] == "error"] == (["error"] * (2 if broken else 0))[
        : len(printed["problems"])
    ]
