"""The part of Go's text/template that tool mocks use: fields, if, range, comparisons, printf. Anything else is refused by name.

A template is parsed once, at load, into a tree of closures; rendering one is pure and bounded: `range` only walks a list it was given, and nested
ones end at a limit of steps.
"""

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.tools.template_values import FUNCTIONS, MAX_TEXT_CHARACTERS, field_of, go_text, is_true

MAX_SOURCE_CHARACTERS = 64 * 1024
MAX_ACTION_CHARACTERS = 4096
MAX_STEPS = 100_000
"""Nodes and turns of a range in one rendering: nested ranges multiply beyond any time."""

Expression = Callable[["Scope"], Any]
Node = Callable[["Scope", "Output"], None]


class TemplateRefused(ValueError):
    """The template is malformed or uses what this interpreter does not know; the message names it."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a template sees: `.` and, in a range, still `$`."""

    dot: Any
    root: Any


@dataclass(slots=True)
class Output:
    """What a rendering has printed, and how much more it may do."""

    texts: list[str] = field(default_factory=list)
    characters: int = 0
    steps: int = 0

    def step(self) -> None:
        """Count one step. Raises: ValueError: it is one too many."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise ValueError(f"it takes more than {MAX_STEPS:,} steps")

    def print(self, text: str) -> None:
        """Append text. Raises: ValueError: it is too much."""
        self.characters += len(text)
        if self.characters > MAX_TEXT_CHARACTERS:
            raise ValueError(f"it prints more than {MAX_TEXT_CHARACTERS:,} characters")
        self.texts.append(text)


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template."""

    nodes: tuple[Node, ...]

    def render(self, arguments: Mapping[str, Any]) -> str:
        """Return the text for these arguments; a missing one prints as `<no value>`, as Go prints it.

        Raises:
            ValueError: an operand has a type that the function cannot take, or the rendering goes beyond its limits.
        """
        output = Output()
        try:
            _run(self.nodes, Scope(arguments, arguments), output)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        return "".join(output.texts)


def parse_template(source: str) -> Template:
    """Parse a template.

    Raises:
        TemplateRefused: it is malformed, too long or too deep, or uses a construct or a function that is not known here.
    """
    if len(source) > MAX_SOURCE_CHARACTERS:
        raise TemplateRefused(f"it is longer than {MAX_SOURCE_CHARACTERS:,} characters")
    parser = _Parser(source)
    try:
        nodes, ended_by = parser.block()
    except RecursionError:
        raise TemplateRefused("it is nested too deeply") from None
    if ended_by:
        raise TemplateRefused(f"'{{{{{ended_by}}}}}' without an 'if' or 'range' before it")
    return Template(nodes)


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
        return lambda scope, output: output.print(go_text(expression(scope)))

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

        def walk(scope: Scope, output: Output) -> None:
            entries = listing(scope)
            if isinstance(entries, Mapping):
                entries = [entries[key] for key in sorted(entries)]
            if not isinstance(entries, list) or not entries:
                _run(otherwise, scope, output)
                return
            for entry in entries:
                output.step()
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
    while (start := source.find("{{", place)) >= 0:
        end = source.find("}}", start + 2)
        if end < 0:
            raise TemplateRefused("'{{' without '}}'")
        action, text = source[start + 2 : end], source[place:start]
        if len(action) > MAX_ACTION_CHARACTERS:
            raise TemplateRefused(f"an action is longer than {MAX_ACTION_CHARACTERS:,} characters")
        before, after = action[:1] == "-" and action[1:2].isspace(), action[-1:] == "-" and action[-2:-1].isspace()
        text = text.lstrip() if trim else text
        pieces.append((text.rstrip() if before else text, action[1 if before else 0 : -1 if after else None].strip()))
        place, trim = end + 2, after
    rest = source[place:]
    pieces.append((rest.lstrip() if trim else rest, None))
    return pieces


def _text(text: str) -> Node:
    return lambda _scope, output: output.print(text)


def _run(nodes: tuple[Node, ...], scope: Scope, output: Output) -> None:
    for node in nodes:
        output.step()
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
    try:
        inspect.signature(function).bind(*operands)
    except TypeError:
        raise TemplateRefused(f"'{word}' cannot take {len(operands)} operands") from None
    return (lambda scope: function(*(operand(scope) for operand in operands))), rest


def _operand(tokens: Tokens) -> tuple[Expression, Tokens]:
    (kind, word), rest = tokens[0], tokens[1:]
    if kind == "string":
        literal = _literal(word)
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


def _literal(word: str) -> str:
    if word[0] == "`":
        return word[1:-1]
    try:
        return str(json.loads(word, strict=False))
    except ValueError:
        raise TemplateRefused(f"the string {word[:40]} has an escape that is not understood") from None


def _field(word: str) -> Expression:
    names = [name for name in word.lstrip("$").split(".") if name]

    def read(scope: Scope) -> Any:
        value = scope.root if word.startswith("$") else scope.dot
        for name in names:
            value = field_of(value, name)
        return value

    return read


_CONSTANTS: Mapping[str, Any] = {"true": True, "false": False, "nil": None}
