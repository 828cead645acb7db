"""Merge patches: the appendix of RFC 7386, and the way back."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.cluster.merge import apply_merge_patch, is_same, merge_patch_between

JSON = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=3), children, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=3), JSON, max_size=4)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_rfc_7386(target: Any, patch: Any, result: Any) -> None:
    """Every example of RFC 7386, appendix A."""
    before = copy.deepcopy((target, patch))
    assert apply_merge_patch(target, patch) == result
    assert (target, patch) == before


@given(OBJECTS, OBJECTS)
def test_the_difference_leads_from_one_to_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Applying the patch between two objects to the first gives the second, as JSON."""
    assert is_same(apply_merge_patch(old, merge_patch_between(old, new)), new)


@given(OBJECTS)
def test_no_difference_is_no_patch(value: dict[str, Any]) -> None:
    """Between equal objects the patch is empty."""
    assert merge_patch_between(value, copy.deepcopy(value)) == {}


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, True, id="order of keys"),
        pytest.param([1, 2], [2, 1], False, id="order of items"),
        pytest.param({"a": True}, {"a": 1}, False, id="true is not 1"),
        pytest.param({"a": 1}, {"a": 1.0}, False, id="1 is not 1.0"),
        pytest.param({"a": None}, {}, False, id="null is not absent"),
    ],
)
def test_sameness(left: Any, right: Any, *, same: bool) -> None:
    """Values are compared as JSON."""
    assert is_same(left, right) is same
