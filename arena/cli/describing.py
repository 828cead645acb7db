"""One object in words, as `kubectl describe` lays it out."""

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from arena.cli.listing import age
from arena.cli.screen import counted, printable, table
from foundation.clock import SystemClock

_HIDDEN_METADATA = {"name", "namespace", "labels", "annotations", "managedFields"}
_HIDDEN_ANNOTATION = "last-applied-configuration"
_LONGEST_VALUE = 400


def describe_object(item: dict[str, Any], events: Sequence[dict[str, Any]]) -> str:
    """Return the text about one object and its events."""
    metadata = item["metadata"]
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if not key.endswith(_HIDDEN_ANNOTATION)}
    lines = [
        f"Name:         {metadata['name']}",
        *([f"Namespace:    {metadata['namespace']}"] if "namespace" in metadata else []),
        *_pairs("Labels:", metadata.get("labels") or {}),
        *_pairs("Annotations:", annotations),
        f"API Version:  {item['apiVersion']}",
        f"Kind:         {item['kind']}",
        "Metadata:",
        *_tree({key: value for key, value in metadata.items() if key not in _HIDDEN_METADATA}, 1),
    ]
    shown = {**item, "data": _sizes(item["data"])} if item["kind"] == "Secret" and item.get("data") else item
    for section in ("spec", "data", "status"):
        if shown.get(section):
            inner = _verbatim(shown[section]) if section == "data" else _tree(shown[section], 1)
            lines += [f"{_title(section)}:", *inner]
    return "\n".join(lines) + "\n" + _events(events)


def _sizes(data: dict[str, str]) -> dict[str, str]:
    """Return what may be seen of a Secret on a screen."""
    return {key: counted(len(base64.b64decode(value)), "byte") for key, value in data.items()}


def _pairs(title: str, pairs: dict[str, str]) -> Iterator[str]:
    shown = [f"{key}={_short(value)}" for key, value in pairs.items()] or ["<none>"]
    yield f"{title:<14}{shown[0]}"
    yield from (f"{'':14}{text}" for text in shown[1:])


def _tree(value: Any, depth: int) -> Iterator[str]:
    pad = "  " * depth
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, dict | list) and inner:
                yield f"{pad}{_title(key)}:"
                yield from _tree(inner, depth + 1)
            else:
                yield f"{pad}{_title(key)}:  {_short(inner)}"
    else:
        for number, inner in enumerate(value):
            if isinstance(inner, dict):
                yield from ([f"{pad}-"] if number else [])
                yield from _tree(inner, depth)
            else:
                yield f"{pad}{_short(inner)}"


def _verbatim(data: dict[str, str]) -> Iterator[str]:
    """Yield the keys of a Secret or a ConfigMap as they are spelt: whoever reads them compares them with what a program looks up."""
    yield from (f"  {printable(key)}:  {_short(value)}" for key, value in data.items())


def _title(key: str) -> str:
    spaced = "".join(f" {c}" if c.isupper() and i and not key[i - 1].isupper() else c for i, c in enumerate(key))
    return spaced[:1].upper() + spaced[1:]


def _short(value: Any) -> str:
    text = printable("" if value is None else str(value))
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _events(events: Sequence[dict[str, Any]]) -> str:
    if not events:
        return "Events:       <none>\n"
    now = SystemClock().now()
    rows = [
        [event["type"], event["reason"], f"{age(event['lastTimestamp'], now)} (x{event.get('count', 1)})", printable(event["message"])]
        for event in sorted(events, key=lambda event: str(event["lastTimestamp"]))
    ]
    text = table(["Type", "Reason", "Age", "Message"], rows)
    return "Events:\n" + "".join(f"  {line}\n" for line in text.splitlines())
