"""The CustomResourceDefinitions: fresh, structural, bounded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import re2
import yaml

from reconcile.kinds.catalog import CATALOG
from reconcile.kinds.crds import MAX_BYTES, crd, crd_text, file_name, main, stale_files
from reconcile.kinds.rules import rules_of
from reconcile.kinds.schema import INT_OR_STRING, PRESERVE, schema_of
from reconcile.kinds.validation import schema_errors

DIRECTORY = Path(__file__).parents[2] / "manifests/crds"
KIND = pytest.mark.parametrize("kind", CATALOG)


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every node of a schema with its path."""
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from nodes(below, f"{path}.{name}" if path else name)
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key], f"{path}[*]")


def test_the_files_are_fresh() -> None:
    """What is committed is what the kinds say: `python -m reconcile.kinds.crds --write` was run."""
    assert stale_files(DIRECTORY) == []


def test_check_names_what_is_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A changed, a missing and a left over file are each named, with the command that repairs them."""
    assert main(["--write", str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    (tmp_path / file_name("ArenaJob")).write_text("changed")
    (tmp_path / file_name("ArenaRun")).unlink()
    (tmp_path / "omnia.altairalabs.ai_gone.yaml").write_text("left over")
    assert main(["--check", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert all(name in said for name in ("arenajobs.yaml", "arenaruns.yaml", "gone.yaml", "--write"))
    assert "arenaprojects.yaml" not in said
    main(["--write", str(tmp_path)])
    assert stale_files(tmp_path) == []


@KIND
def test_a_crd_is_small_and_plain(kind: str) -> None:
    """A CRD fits the annotation of client-side apply, and has no reference, no anchor and no null."""
    text = crd_text(kind)
    assert len(text.encode()) < MAX_BYTES
    for word in ("$ref", "anyOf", "null", "&id", "additionalProperties: false", "title:"):
        assert word not in text
    assert yaml.safe_load(text) == crd(kind)


@KIND
def test_a_schema_is_structural(kind: str) -> None:
    """Every node has a type or is int-or-string, and no object both declares and closes its keys."""
    for path, node in nodes(schema_of(kind)):
        assert ("type" in node) != node.get(INT_OR_STRING, False), path
        assert not {"properties", "additionalProperties"} <= node.keys(), path
        assert node.get("type") != "array" or "items" in node, path


@KIND
def test_defaults_are_valid(kind: str) -> None:
    """The server refuses a CRD whose default breaks its own schema."""
    for path, node in nodes(schema_of(kind)):
        if "default" in node:
            assert [*schema_errors(node, node["default"], path)] == []


@KIND
def test_no_default_stands_in_a_list(kind: str) -> None:
    """A default below a spec's list would make `kubectl apply` find a difference each time: it compares lists as wholes."""
    assert [path for path, node in nodes(schema_of(kind)["properties"]["spec"]) if "[*]" in path and "default" in node] == []


@KIND
def test_patterns_are_re2_and_anchored(kind: str) -> None:
    """Every pattern compiles in RE2 and means the whole value: a trailing newline never slips through."""
    for path, node in nodes(schema_of(kind)):
        if "pattern" in node:
            assert re2.compile(node["pattern"]) is not None
            assert node["pattern"].startswith("^"), path
            assert node["pattern"].endswith("$"), path
            assert re2.search(node["pattern"], "a\n") is None or "[^" in node["pattern"], path


@KIND
def test_what_cel_reads_is_bounded(kind: str) -> None:
    """The server estimates a rule's cost from bounds: strings, lists and maps at and below a rule's scope all have one."""
    for rule in rules_of(kind):
        if not rule.scope:
            continue
        prefix = rule.scope
        for path, node in nodes(schema_of(kind)):
            if path == prefix or path.startswith((f"{prefix}.", f"{prefix}[")):
                if node.get("type") == "string":
                    assert node.keys() & {"maxLength", "enum"}, path
                if node.get("type") == "array":
                    assert "maxItems" in node, path
                if "additionalProperties" in node:
                    assert "maxProperties" in node, path


@KIND
def test_a_field_is_described(kind: str) -> None:
    """`kubectl explain` has a sentence for every declared field."""
    undescribed = [path for path, node in nodes(schema_of(kind)) if path.count(".") and not path.endswith("[*]") and not node.get("description")]
    assert undescribed == []


@KIND
def test_names_and_columns(kind: str) -> None:
    """A CRD has its short names, the category arena, status as a subresource, and columns that exist."""
    spec = crd(kind)["spec"]
    version = spec["versions"][0]
    assert spec["names"]["categories"] == ["arena"]
    assert version["subresources"] == {"status": {}}
    assert version["additionalPrinterColumns"][0]["name"]
    for column in version["additionalPrinterColumns"]:
        path = column["jsonPath"].removeprefix(".")
        assert path.startswith(("metadata.", "status.conditions[")) or reaches(schema_of(kind), path.split(".")), path


def reaches(schema: dict[str, Any], steps: list[str]) -> bool:
    """Say whether a schema has a value at a path."""
    for step in steps:
        if step not in schema.get("properties", {}):
            return "additionalProperties" in schema or bool(schema.get(PRESERVE))
        schema = schema["properties"][step]
    return True


@pytest.mark.parametrize(
    ("kind", "always", "wide"),
    [
        pytest.param("ArenaProject", ["Kind", "Head", "Ready", "Status", "Age"], [], id="ArenaProject"),
        pytest.param("ArenaJob", ["Source", "Type", "Active", "Last Run", "Next", "Age"], ["Ref", "Schedule", "Suspend", "Ready"], id="ArenaJob"),
        pytest.param(
            "ArenaRun", ["Job", "Phase", "Commit", "Progress", "Pass Rate", "Cost", "Age"], ["Ref", "Trigger", "Workers", "Reason"], id="ArenaRun"
        ),
        pytest.param("Provider", ["Type", "Model", "Phase", "Age"], [], id="Provider"),
        pytest.param("AgentRuntime", ["Phase", "Endpoint", "Age"], [], id="AgentRuntime"),
        pytest.param("ToolRegistry", ["Tools", "Phase", "Age"], [], id="ToolRegistry"),
        pytest.param("Workspace", ["Namespace", "Phase", "Age"], [], id="Workspace"),
    ],
)
def test_columns_of_the_specification(kind: str, always: list[str], wide: list[str]) -> None:
    """The columns, in the order that resources.md gives them."""
    columns = CATALOG[kind].columns
    assert [column.name for column in columns if not column.priority] == always
    assert [column.name for column in columns if column.priority] == wide


def test_next_is_a_string() -> None:
    """A date in the future is `<invalid>` to kubectl, so the next tick is no date column."""
    assert {column.name: column.type for column in CATALOG["ArenaJob"].columns}["Next"] == "string"


@pytest.mark.parametrize("kind", ["Provider", "AgentRuntime", "ToolRegistry", "Workspace"])
def test_a_neighbour_keeps_unknown_fields(kind: str) -> None:
    """Another product may own the kind: keys that we do not know stay at the top of its spec, and nowhere else above it."""
    schema = schema_of(kind)
    assert CATALOG[kind].is_neighbour
    assert schema["properties"]["spec"][PRESERVE] is True
    assert PRESERVE not in schema


@pytest.mark.parametrize("kind", ["ArenaProject", "ArenaJob", "ArenaRun"])
def test_our_own_kinds_keep_nothing_unknown_at_the_top(kind: str) -> None:
    """A mistyped key of ours is never kept in silence."""
    assert PRESERVE not in schema_of(kind)["properties"]["spec"]


def test_the_providers_map_is_left_to_admission() -> None:
    """The providers map is excluded from schema validation: only its being a map is said."""
    providers = schema_of("ArenaJob")["properties"]["spec"]["properties"]["providers"]
    assert {key: value for key, value in providers.items() if key != "description"} == {"type": "object", PRESERVE: True}


def test_a_run_carries_the_whole_job_spec() -> None:
    """`spec.template` is the job's spec, rules included, and frozen."""
    job = schema_of("ArenaJob")["properties"]["spec"]
    template = schema_of("ArenaRun")["properties"]["spec"]["properties"]["template"]
    assert template["properties"] == job["properties"]
    assert template["required"] == job["required"]
