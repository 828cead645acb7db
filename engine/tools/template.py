"""The part of Go's text/template that tool mocks use: fields, if, range, comparisons, printf. Anything else is refused by name.

A template is parsed once, at load, into a tree of closures; rendering one is pure and cannot loop: `range` only walks a list it was given.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.tools.template_values import FUNCTIONS, field_of, go_text, is_true

Expression = Callable[["Scope"], Any]
Node = Callable[["Scope", list[str]], None]


class TemplateRefused(ValueError):
    """The template is malformed or uses what this interpreter does not know; the message names it."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a template sees: `.` and, in a range, still `$`."""

    dot: Any
    root: Any


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template."""

    nodes: tuple[Node, ...]

    def render(self, arguments: Mapping[str, Any]) -> str:
        """Return the text for these arguments; a missing one prints as `<no value>`, as Go prints it.

        Raises:
            ValueError: an operand has a type that the function cannot take.
        """
        output: list[str] = []
        _run(self.nodes, Scope(arguments, arguments), output)
        return "".join(output)


def parse_template(source: str) -> Template:
    """Parse a template.

    Raises:
        TemplateRefused: it is malformed, or uses a construct or a function that is not known here.
    """
    parser = _Parser(source)
    nodes, ended_by = parser.block()
    if ended_by:
        raise TemplateRefused(f"'{{{{{ended_by}}}}}' without an 'if' or 'range' before it")
    return Template(nodes)


_ACTION = re.compile(r"\{\{(- )?\s*(.*?)\s*( -)?\}\}", re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\\n]|\\.)*"|`[^`]*`)|(?P<number>-?\d+(?:\.\d+)?)|(?P<field>\$?(?:\.[A-Za-z_]\w*)+|\$|\.)|(?P<word>[A-Za-z_]\w*)|(?P<mark>[()|])|(?P<bad>\S+))"""
)
_COMMENT = re.compile(r"/\*.*\*/", re.DOTALL)
_REFUSED = frozenset(("with", "define", "template", "block", "break", "continue"))


class _Parser:
    """Walks the source once, action by action."""

    def __init__(self, source: str) -> None:
        self._pieces = _split(source)
        self._place = 0

    def block(self) -> tuple[tuple[Node, ...], str]:
        """Parse up to the `end` or `else` that closes this block; returns the nodes and that action ("" at the end of the source)."""
        nodes: list[Node] = []
        while self._place < len(self._pieces):
            text, action = self._pieces[self._place]
            self._place += 1
            if text:
                nodes.append(_text(text))
            if action is None or _COMMENT.fullmatch(action):
                continue
            head = action.split(None, 1)[0] if action else ""
            if head in ("end", "else"):
                return tuple(nodes), action
            nodes.append(self._statement(head, action))
        return tuple(nodes), ""

    def _statement(self, head: str, action: str) -> Node:
        if head == "if":
            return self._if(action[2:])
        if head == "range":
            return self._range(action[5:])
        if head in _REFUSED:
            raise TemplateRefused(f"'{head}' is not supported in a mock template")
        expression = parse_expression(action)
        return lambda scope, output: output.append(go_text(expression(scope)))

    def _if(self, condition: str) -> Node:
        test = parse_expression(condition)
        then, closing = self.block()
        otherwise: tuple[Node, ...] = ()
        if closing.startswith("else"):
            rest = closing[4:].strip()
            otherwise = (self._if(rest[2:]),) if rest.startswith("if") else self._closed_block("if")
        elif closing != "end":
            raise TemplateRefused("'if' without 'end'")
        return lambda scope, output: _run(then if is_true(test(scope)) else otherwise, scope, output)

    def _range(self, source: str) -> Node:
        listing = parse_expression(source)
        body, closing = self.block()
        otherwise: tuple[Node, ...] = ()
        if closing == "else":
            otherwise = self._closed_block("range")
        elif closing != "end":
            raise TemplateRefused("'range' without 'end'")

        def walk(scope: Scope, output: list[str]) -> None:
            entries = listing(scope)
            if isinstance(entries, Mapping):
                entries = [entries[key] for key in sorted(entries)]
            if not isinstance(entries, list) or not entries:
                _run(otherwise, scope, output)
                return
            for entry in entries:
                _run(body, Scope(entry, scope.root), output)

        return walk

    def _closed_block(self, opener: str) -> tuple[Node, ...]:
        nodes, closing = self.block()
        if closing != "end":
            raise TemplateRefused(f"'{opener}' without 'end'")
        return nodes


def _split(source: str) -> list[tuple[str, str | None]]:
    """Return the source as pairs of plain text and the action after it (None for none), white space trimmed where an action asks for it."""
    pieces: list[tuple[str, str | None]] = []
    place, trim = 0, False
    for match in _ACTION.finditer(source):
        text = source[place : match.start()]
        text = text.lstrip() if trim else text
        pieces.append((text.rstrip() if match[1] else text, match[2]))
        place, trim = match.end(), match[3] is not None
    rest = source[place:]
    if "{{" in rest:
        raise TemplateRefused("'{{' without '}}'")
    pieces.append((rest.lstrip() if trim else rest, None))
    return pieces


def _text(text: str) -> Node:
    return lambda _scope, output: output.append(text)


def _run(nodes: tuple[Node, ...], scope: Scope, output: list[str]) -> None:
    for node in nodes:
        node(scope, output)


def parse_expression(source: str) -> Expression:
    """Parse what stands in an action: an operand, or a function and its operands, with parentheses.

    Raises:
        TemplateRefused: it is malformed or names an unknown function, a pipe, or a variable.
    """
    tokens = [(match.lastgroup or "bad", match[match.lastgroup or "bad"]) for match in _TOKEN.finditer(source.strip())]
    expression, rest = _call(tokens)
    if rest:
        raise TemplateRefused(f"'{rest[0][1]}' is not understood in '{{{{{source.strip()}}}}}'")
    return expression


Tokens = list[tuple[str, str]]


def _call(tokens: Tokens) -> tuple[Expression, Tokens]:
    if not tokens:
        raise TemplateRefused("an action is empty")
    kind, word = tokens[0]
    if kind != "word" or word in _CONSTANTS:
        return _operand(tokens)
    function = FUNCTIONS.get(word)
    if function is None:
        raise TemplateRefused(f"function '{word}' is not supported in a mock template; known: {', '.join(sorted(FUNCTIONS))}")
    operands, rest = [], tokens[1:]
    while rest and rest[0] != ("mark", ")"):
        operand, rest = _operand(rest)
        operands.append(operand)
    return (lambda scope: function(*(operand(scope) for operand in operands))), rest


def _operand(tokens: Tokens) -> tuple[Expression, Tokens]:
    (kind, word), rest = tokens[0], tokens[1:]
    if kind == "string":
        literal = word[1:-1] if word[0] == "`" else json.loads(word)
        return (lambda _scope: literal), rest
    if kind == "number":
        amount = float(word) if "." in word else int(word)
        return (lambda _scope: amount), rest
    if kind == "field":
        return _field(word), rest
    if kind == "word" and word in _CONSTANTS:
        return (lambda _scope: _CONSTANTS[word]), rest
    if word == "(":
        inner, rest = _call(rest)
        if not rest or rest[0][1] != ")":
            raise TemplateRefused("'(' without ')'")
        return inner, rest[1:]
    raise TemplateRefused("pipes are not supported in a mock template" if word == "|" else f"'{word}' is not supported in a mock template")


def _field(word: str) -> Expression:
    names = [name for name in word.lstrip("$").split(".") if name]

    def read(scope: Scope) -> Any:
        value = scope.root if word.startswith("$") else scope.dot
        for name in names:
            value = field_of(value, name)
        return value

    return read


_CONSTANTS: Mapping[str, Any] = {"true": True, "false": False, "nil": None}
