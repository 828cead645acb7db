"""Checks of replies that should be JSON: that they parse, fit a schema, and hold a value (JMESPath)."""

import json
import math
from collections.abc import Callable
from typing import Any

from engine.checks.evidence import Evaluate, Evidence, Outcome, verdict
from engine.checks.params import Param, Values, anything, count, flag, mapping, number, text
from engine.checks.registry import CheckType
from engine.checks.shown import escaped, shown
from engine.tools.schema import Schema, check_schema

_FENCE = "```"


def _json_valid(values: Values) -> Evaluate:
    extract = _extraction(values)

    def evaluate(evidence: Evidence) -> Outcome:
        try:
            parse_json(extract(evidence.reply))
        except ValueError as error:
            return Outcome(0.0, f"not JSON: {error}; the reply is {shown(evidence.reply)}")
        return Outcome(1.0, "JSON")

    return evaluate


def _json_schema(values: Values) -> Evaluate:
    extract = _extraction(values)
    schema: Schema = values["schema"]

    def evaluate(evidence: Evidence) -> Outcome:
        try:
            document = parse_json(extract(evidence.reply))
        except ValueError as error:
            return Outcome(0.0, f"not JSON: {error}; the reply is {shown(evidence.reply)}")
        fault = schema.fault(document)
        return verdict(holds=not fault, explanation=fault or "fits the schema")

    return evaluate


def _json_path(values: Values) -> Evaluate:
    extract = _extraction(values)
    expression = values["expression"]
    conditions = [build(values[key]) for key, build in _CONDITIONS.items() if key in values["given"]]

    def evaluate(evidence: Evidence) -> Outcome:
        import jmespath  # noqa: PLC0415 - 30 ms that only bundles with JSON paths need
        from jmespath.exceptions import JMESPathError  # noqa: PLC0415

        try:
            found = jmespath.search(expression, parse_json(extract(evidence.reply)))
        except JMESPathError as error:
            return Outcome(0.0, f"the expression failed: {error}")
        except ValueError as error:
            return Outcome(0.0, f"not JSON: {error}; the reply is {shown(evidence.reply)}")
        _check_size(found)
        fault = next((fault for condition in conditions if (fault := condition(found))), "")
        return verdict(holds=not fault, explanation=fault or "all conditions hold", value={"result": found})

    return evaluate


def _prepare_json_path(values: Values) -> Evaluate:
    import jmespath  # noqa: PLC0415
    from jmespath.exceptions import JMESPathError  # noqa: PLC0415

    try:
        jmespath.compile(values["expression"])
    except JMESPathError as error:
        raise ValueError(f"'expression' is not a JMESPath expression: {' '.join(str(error).split())}") from None
    given = {key for key in _CONDITIONS if values[key] is not _ABSENT}
    return _json_path({**values, "given": given})


MAX_RESULT_NODES = 100_000
MAX_RESULT_CHARACTERS = 4 * 1024 * 1024


def _check_size(found: Any) -> None:
    """Raise ValueError for a result that is large: a short expression can repeat a value beyond any memory, and results are written out."""
    waiting, nodes, characters = [found], 0, 0
    while waiting:
        value = waiting.pop()
        nodes += 1
        if isinstance(value, str):
            characters += len(value)
        elif isinstance(value, dict):
            characters += sum(map(len, value))
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        if nodes > MAX_RESULT_NODES or characters > MAX_RESULT_CHARACTERS:
            raise ValueError(f"the result of the expression has more than {MAX_RESULT_NODES:,} values or {MAX_RESULT_CHARACTERS:,} characters")


Condition = Callable[[Any], str]


def _equals(expected: Any) -> Condition:
    return lambda found: "" if same_json(found, expected) else f"is {_short(found)}, expected {_short(expected)}"


def _holds_all(expected: Any) -> Condition:
    def check(found: Any) -> str:
        if not isinstance(found, list):
            return "is not a list, so it contains nothing"
        missing = [entry for entry in expected if not any(same_json(item, entry) for item in found)]
        return f"does not contain {_short(missing[0])}" if missing else ""

    return check


def _bound(limit: float, *, least: bool) -> Condition:
    def check(found: Any) -> str:
        if isinstance(found, bool) or not isinstance(found, int | float):
            return "is not a number"
        if least:
            return "" if found >= limit else f"is {found}, at least {limit:g} wanted"
        return "" if found <= limit else f"is {found}, at most {limit:g} allowed"

    return check


def _size(limit: int, *, least: bool) -> Condition:
    def check(found: Any) -> str:
        if not isinstance(found, list):
            return "is not a list"
        if least:
            return "" if len(found) >= limit else f"has {len(found)} entries, at least {limit} wanted"
        return "" if len(found) <= limit else f"has {len(found)} entries, at most {limit} allowed"

    return check


_CONDITIONS: dict[str, Callable[[Any], Condition]] = {
    "expected": _equals,
    "contains": _holds_all,
    "min": lambda limit: _bound(limit, least=True),
    "max": lambda limit: _bound(limit, least=False),
    "min_results": lambda limit: _size(limit, least=True),
    "max_results": lambda limit: _size(limit, least=False),
}


def parse_json(text: str) -> Any:
    """Parse JSON as the standard has it: no NaN, no infinity, no number beyond a double, no nesting without end.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse(word: str) -> Any:
    raise ValueError(f"'{word}' is no JSON value")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"the number {digits[:40]} is too large")
    return value


def same_json(left: Any, right: Any) -> bool:
    """Say whether two JSON values are equal: numbers by value (15 is 15.0), true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same_json(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    return bool(left == right)


def _short(value: Any) -> str:
    written = "".join(escaped(character) for character in json.dumps(value, ensure_ascii=False, default=str))
    return written if len(written) <= 80 else f"{written[:77]}..."  # noqa: PLR2004 - a message's width


def _extraction(values: Values) -> Callable[[str], str]:
    wrapped, embedded = values["allow_wrapped"], values["extract_json"]
    if not wrapped and not embedded:
        return lambda reply: reply

    def extract(reply: str) -> str:
        found = fenced_block(reply) if wrapped else ""
        if not found and embedded:
            found = balanced(reply, "{", "}") or balanced(reply, "[", "]")
        return found or reply

    return extract


def fenced_block(reply: str) -> str:
    """Return the text of the first block between lines of three backticks ("json" may follow the first), or ""."""
    opening = reply.find(_FENCE)
    while opening >= 0:
        start = reply.find("\n", opening)
        if start < 0:
            return ""
        language = reply[opening + len(_FENCE) : start].strip()
        end = reply.find(f"\n{_FENCE}", start)
        if language in ("", "json") and end >= 0:
            return reply[start:end].strip()
        opening = reply.find(_FENCE, opening + len(_FENCE))
    return ""


def balanced(reply: str, opening: str, closing: str) -> str:
    """Return the first text from an opening bracket to the one that closes it, brackets in JSON strings not counted, or ""."""
    start = reply.find(opening)
    if start < 0:
        return ""
    depth, in_string, escaped = 0, False, False
    for place in range(start, len(reply)):
        character = reply[place]
        if escaped:
            escaped = False
        elif in_string:
            escaped, in_string = character == "\\", character != '"'
        elif character == '"':
            in_string = True
        elif character in (opening, closing):
            depth += 1 if character == opening else -1
            if depth == 0:
                return reply[start : place + 1]
    return ""


def _schema(value: Any) -> Schema:
    definition = mapping(value)
    fault = check_schema(definition)
    if fault:
        raise ValueError(f"is not a JSON Schema: {fault}")
    return Schema(definition)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list")  # noqa: TRY004 - a reader's one error type is ValueError
    return list(value)


_ABSENT = object()
_EXTRACTION = (Param("allow_wrapped", flag, default=False), Param("extract_json", flag, default=False))

CHECKS = (
    CheckType("json_valid", _EXTRACTION, _json_valid),
    CheckType("json_schema", (Param("schema", _schema, required=True), *_EXTRACTION), _json_schema),
    CheckType(
        "json_path",
        (
            Param("expression", text, required=True, aliases=("jmespath_expression",)),
            Param("expected", anything, default=_ABSENT),
            Param("contains", _list, default=_ABSENT),
            Param("min", number, default=_ABSENT),
            Param("max", number, default=_ABSENT),
            Param("min_results", count, default=_ABSENT),
            Param("max_results", count, default=_ABSENT),
            *_EXTRACTION,
        ),
        _prepare_json_path,
    ),
)
