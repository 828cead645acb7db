"""JSON from strangers: parsed within bounds, and read without trusting a single type.

Must not know any host.
"""

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, NoReturn
from urllib.parse import unquote_to_bytes

from hooks.delivery import Payload
from hooks.errors import Refused


def parse_object(document: bytes) -> Payload:
    """Return the JSON object of a document in UTF-8. Of a key that is there twice the last value counts.

    Raises:
        Refused: 400: no JSON, not UTF-8, no object, or nested deeper than Python's stack (about 1,000 levels).
    """
    try:
        payload = json.loads(document.decode(), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise _malformed("is not UTF-8 text") from error
    except RecursionError as error:
        raise _malformed("is nested too deeply") from error
    except ValueError as error:
        raise _malformed(f"is not JSON: {error}") from error
    if not isinstance(payload, dict):
        raise _malformed("is not a JSON object")
    return payload


def form_document(body: bytes) -> bytes:
    """Return the JSON text of a form: its one field `payload`.

    Raises:
        Refused: 400: there is none, or more than one.
    """
    fields = (field.partition(b"=") for field in body.split(b"&"))
    values = [value for name, _, value in fields if name == b"payload"]
    if len(values) != 1:
        raise _malformed("is a form without exactly one field 'payload'")
    return unquote_to_bytes(values[0].replace(b"+", b" "))


def text_at(payload: Any, *path: str) -> str:
    """Return the text at a path of keys, "" when there is no text."""
    found = _at(payload, path)
    return found if isinstance(found, str) else ""


def texts_at(payload: Any, path: tuple[str, ...], keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts under some keys of the object at a path, each once, without those that are not there."""
    return tuple(dict.fromkeys(text for key in keys if (text := text_at(payload, *path, key))))


def items_at(payload: Any, *path: str) -> Iterator[Any]:
    """Yield the items of the list at a path of keys; none when there is no list."""
    found = _at(payload, path)
    yield from found if isinstance(found, list) else ()


def printable(text: str, limit: int = 200) -> str:
    """Return a stranger's words as they can go into a message: at most `limit` characters, none that controls a terminal or is half of one."""
    return "".join(character if character.isprintable() else "?" for character in text[:limit])


def _at(payload: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        payload = payload.get(key) if isinstance(payload, dict) else None
    return payload


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _malformed(cause: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, f"cannot read the delivery: its body {cause}", hint="send the payload as the git host documents it")
