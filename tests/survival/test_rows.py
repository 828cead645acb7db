"""The index from the sentences of survival.md to tests: whole, and true."""

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = ROOT / ".." / "shared" / "design" / "survival.md"
_BULLET = re.compile(r"^(\d+\.|-)\s+")
_NEXT_SENTENCE = re.compile(r"(?<=[.])\s+(?=[A-Z`*(])")


def rows() -> Mapping[str, Any]:
    """Return the index: the beginning of a sentence to its tests."""
    found: dict[str, Any] = yaml.safe_load((Path(__file__).with_name("rows.yaml")).read_text(encoding="utf-8"))
    return found


def sentences(page: str) -> list[str]:
    """Return the sentences of a page; a row of a table is one, headings are none."""
    found = []
    for line in page.splitlines():
        if line.startswith("|"):
            found += [] if line.startswith(("|---", "| fact")) else [line.strip()]
        elif line.strip() and not line.startswith("#"):
            found += _NEXT_SENTENCE.split(_BULLET.sub("", line.strip()))
    return found


@cache
def functions_of(file: Path) -> frozenset[str]:
    """Return the names of the tests in a file, those of a state machine included."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(name for name in functions if name.startswith("test_"))


def test_every_sentence_has_a_test() -> None:
    """Every sentence of survival.md begins as exactly one row of the index does, and every row begins a sentence."""
    if not PAGE.is_file():
        pytest.skip(f"no page at {PAGE}")
    found = sentences(PAGE.read_text(encoding="utf-8"))
    told = {sentence: [row for row in rows() if sentence.startswith(row)] for sentence in found}
    assert [sentence for sentence, matching in told.items() if len(matching) != 1] == []
    used = [matching[0] for matching in told.values()]
    assert sorted(used) == sorted(rows())


def test_every_named_test_exists() -> None:
    """A row names tests that are there, or says what is not built."""
    missing = []
    for row, tests in rows().items():
        if isinstance(tests, dict):
            assert list(tests) == ["unbuilt"], row
            continue
        assert tests, row
        for test in tests:
            file, _, name = test.partition("::")
            if not (ROOT / file).is_file() or name not in functions_of(ROOT / file):
                missing.append(test)
    assert missing == []
