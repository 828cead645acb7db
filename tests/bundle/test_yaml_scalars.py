"""Plain scalars follow YAML 1.2, as the format's reference reads them."""

import pytest

from engine.bundle.problems import Problems
from engine.bundle.yamltree import Document, compose, to_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("yes", "yes", id="yes is text"),
        pytest.param("on", "on", id="on is text"),
        pytest.param("True", True, id="True is true"),
        pytest.param("~", None, id="a tilde is nothing"),
        pytest.param("'~'", "~", id="a quoted tilde is text"),
        pytest.param("12", 12, id="a whole number"),
        pytest.param("-3", -3, id="a negative number"),
        pytest.param("1_000", 1000, id="underscores in a number"),
        pytest.param("0x1F", 31, id="hexadecimal"),
        pytest.param("0o17", 15, id="octal"),
        pytest.param("017", 15, id="octal, the old way"),
        pytest.param("089", 89.0, id="no octal number at all"),
        pytest.param("1.5e3", 1500.0, id="a fraction"),
        pytest.param(".5", 0.5, id="a fraction without a nought"),
        pytest.param("12:30", "12:30", id="a time is text"),
        pytest.param("2026-01-02", "2026-01-02", id="a date is text"),
        pytest.param("v1.0.0", "v1.0.0", id="a version is text"),
        pytest.param("100%", "100%", id="a percentage is text"),
        pytest.param("!!str 5", "5", id="an explicit text"),
        pytest.param("!!int '5'", 5, id="an explicit number"),
        pytest.param("99999999999999999999", 1e20, id="a number beyond 64 bits"),
        pytest.param("0x" + "f" * 300, "0x" + "f" * 300, id="hexadecimal beyond a float"),
        pytest.param('"\\u00e9\\/"', "é/", id="escapes"),
        pytest.param("[1, {a: b}]", [1, {"a": "b"}], id="nested"),
    ],
)
def test_scalar(text: str, value: object) -> None:
    """A scalar has the value, and the type, that the reference's parser gives it."""
    problems = Problems()
    document = Document("f.yaml", problems)
    node = compose(document, f"value: {text}\n")
    assert node is not None
    read = to_json(document, node)["value"]
    assert (read, type(read)) == (value, type(value))
    assert problems.all == []
