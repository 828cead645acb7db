"""The part of Go's text/template that tool mocks may use."""

from typing import Any

import pytest

from engine.tools.template import TemplateRefused, parse_template

ARGUMENTS: dict[str, Any] = {
    "id": "A1",
    "n": 3,
    "price": 2.0,
    "on": True,
    "user": {"name": "Jo"},
    "items": ["a", "b"],
    "empty": [],
    "rows": [{"k": 1}, {"k": 2}],
}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        pytest.param("plain", "plain", id="plain text"),
        pytest.param("{{.id}}/{{ .n }}", "A1/3", id="fields, with and without spaces"),
        pytest.param("{{.user.name}}", "Jo", id="a nested field"),
        pytest.param("{{.missing}} {{.user.x.y}}", "<no value> <no value>", id="missing fields print as Go prints them"),
        pytest.param("{{.price}} {{.on}}", "2 true", id="a whole float has no fraction"),
        pytest.param('{{if eq .id "A1"}}yes{{else}}no{{end}}', "yes", id="if and else"),
        pytest.param('{{if eq .id "X"}}x{{else if gt .n 2}}many{{else}}few{{end}}', "many", id="else if"),
        pytest.param("{{if .empty}}x{{end}}-", "-", id="an empty list is false"),
        pytest.param('{{if and .on (not (ne .id "A1"))}}x{{end}}', "x", id="and, not, ne, parentheses"),
        pytest.param('{{if or .missing .id}}{{or .missing "d"}}{{end}}', "d", id="or returns its first true operand"),
        pytest.param('{{if eq .id "B" "A1"}}any{{end}}', "any", id="eq with several alternatives"),
        pytest.param("{{range .items}}[{{.}}]{{end}}", "[a][b]", id="range sets the dot"),
        pytest.param("{{range .rows}}{{.k}}{{$.id}};{{end}}", "1A1;2A1;", id="the dollar stays"),
        pytest.param("{{range .empty}}x{{else}}none{{end}}", "none", id="range over nothing"),
        pytest.param("{{range .user}}{{.}}{{end}}", "Jo", id="range over an object, by key"),
        pytest.param('{{printf "%s=%d (%.2f) %q %v%%" .id .n .price .id .on}}', 'A1=3 (2.00) "A1" true%', id="printf"),
        pytest.param("{{len .items}} {{index .items 1}} {{index .user `name`}}", "2 b Jo", id="len and index"),
        pytest.param("a {{- .id -}} b", "aA1b", id="white space is trimmed where asked"),
        pytest.param("{{/* a note */}}x", "x", id="a comment"),
        pytest.param("{{.items}} {{.user}}", "[a b] map[name:Jo]", id="lists and objects print as in Go"),
        pytest.param("{{le .n 3}} {{lt .id `B`}}", "true true", id="comparisons"),
    ],
)
def test_a_template_renders(source: str, text: str) -> None:
    """What is known renders as Go would render it."""
    assert parse_template(source).render(ARGUMENTS) == text


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param("{{.id | upper}}", "'|' is not understood", id="a pipe"),
        pytest.param("{{upper .id}}", "function 'upper' is not supported", id="an unknown function"),
        pytest.param("{{with .user}}x{{end}}", "'with' is not supported", id="with"),
        pytest.param('{{template "x"}}', "'template' is not supported", id="another template"),
        pytest.param("{{$x := .id}}", "not understood in '{{$x := .id}}'", id="a variable"),
        pytest.param("{{if .id}}x", "'if' without 'end'", id="an if that never ends"),
        pytest.param("{{range .id}}x", "'range' without 'end'", id="a range that never ends"),
        pytest.param("x{{end}}", "without an 'if'", id="an end of nothing"),
        pytest.param("{{.id", "'{{' without '}}'", id="an action that never ends"),
        pytest.param("{{if eq (.id}}x{{end}}", "'(' without ')'", id="a parenthesis that never closes"),
        pytest.param("{{}}", "empty", id="an empty action"),
        pytest.param(r'{{eq .id "\q"}}', "has an escape that is not understood", id="an escape that no string has"),
        pytest.param("{{if .a}}" * 3000 + "{{end}}" * 3000, "nested too deeply", id="blocks without end"),
        pytest.param("{{print " + "(" * 2000 + "1" + ")" * 2000 + "}}", "nested too deeply", id="parentheses without end"),
        pytest.param("{{and}}", "'and' cannot take 0 operands", id="a function without operands"),
        pytest.param("{{not .a .b}}", "'not' cannot take 2 operands", id="a function with too many operands"),
        pytest.param("{{" + " " * 5000 + "}}", "an action is longer than 4,096 characters", id="an action without end"),
        pytest.param("x" * 65537, "longer than 65,536 characters", id="a template without end"),
    ],
)
def test_what_is_not_known_is_refused_by_name(source: str, words: str) -> None:
    """A construct that is not interpreted is refused when the bundle is loaded, and named."""
    with pytest.raises(TemplateRefused) as refused:
        parse_template(source)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("{{range .hundred}}{{range $.hundred}}{{range $.hundred}}{{end}}{{end}}{{end}}", id="nested ranges"),
        pytest.param(
            '{{range .hundred}}{{printf "%1000d%1000d%1000d%1000d%1000d%1000d%1000d%1000d%1000d%1000d%1000d" 1 1 1 1 1 1 1 1 1 1 1}}{{end}}',
            id="much text",
        ),
        pytest.param('{{printf "%2000000000d" 1}}', id="a wide number"),
        pytest.param('{{printf "%.999999999f" .price}}', id="a number of many digits"),
        pytest.param("{{print .long .long}}", id="a text of long operands"),
    ],
)
def test_a_rendering_is_bounded(source: str) -> None:
    """A small template cannot take much time or memory, whatever its arguments."""
    with pytest.raises(ValueError, match=r"more than|wider than"):
        parse_template(source).render(ARGUMENTS | {"hundred": list(range(100)), "long": "x" * 600_000})


@pytest.mark.parametrize("source", ["{{gt .id 1}}", "{{len .n}}", "{{index .items 9}}", '{{printf "%d" .id}}', '{{printf "%s"}}', "{{eq .id}}"])
def test_an_operand_of_the_wrong_kind_fails(source: str) -> None:
    """A function that cannot take its operand fails the rendering, in words."""
    with pytest.raises(ValueError, match=r"\w+"):
        parse_template(source).render(ARGUMENTS)
