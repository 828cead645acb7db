"""Label selectors as kubectl spells them."""

import pytest

from reconcile.cluster.selectors import Selector
from reconcile.errors import Invalid

LABELS = {"tier": "1", "app": "arena", "example.com/empty": ""}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        pytest.param("", True, id="nothing selects everything"),
        pytest.param("tier=1", True, id="equal"),
        pytest.param("tier==1", True, id="equal, written twice"),
        pytest.param("tier = 1 , app = arena", True, id="spaces"),
        pytest.param("tier=2", False, id="another value"),
        pytest.param("tier!=2", True, id="unequal"),
        pytest.param("tier!=1", False, id="unequal to what it is"),
        pytest.param("none!=1", True, id="unequal where the key is absent"),
        pytest.param("tier in (1, 2)", True, id="in"),
        pytest.param("tier in (2,3)", False, id="not in"),
        pytest.param("tier notin (2,3),app", True, id="notin and present"),
        pytest.param("none notin (2)", True, id="notin where the key is absent"),
        pytest.param("none in (2)", False, id="in where the key is absent"),
        pytest.param("app", True, id="present"),
        pytest.param("none", False, id="not present"),
        pytest.param("!none", True, id="absent"),
        pytest.param("!app", False, id="not absent"),
        pytest.param("example.com/empty=", True, id="the empty value"),
        pytest.param("in=1", False, id="a key named in"),
        pytest.param("tier=1,app=other", False, id="every term must hold"),
    ],
)
def test_selection(text: str, *, selected: bool) -> None:
    """A selector selects as kubectl says."""
    assert Selector.parse(text).matches(LABELS) is selected


@pytest.mark.parametrize("text", ["=", "a=b,", "a b", "a in b", "a in (b", "a=(b)", ",", "!", "a=b=c", "a in (b) c"])
def test_no_selector(text: str) -> None:
    """What is no selector is refused, not read as something else."""
    with pytest.raises(Invalid, match="unable to parse requirement"):
        Selector.parse(text)


def test_exact_labels_narrow_the_search() -> None:
    """Only labels that every selected object must carry are exact."""
    assert Selector.parse("a=1,b in (2),c in (3,4),d!=5,e,!f").exact() == {"a": "1", "b": "2"}
