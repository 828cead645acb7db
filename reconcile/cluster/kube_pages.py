"""A page of a listing, decoded object by object as it is read: as trees of dicts 500 objects take ten times the memory of their text.

Pure. Owns the shape of a list as API servers write it.
"""

import codecs
import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from reconcile.cluster.kube_watch import without_managers
from reconcile.cluster.port import Listing, Object, ResourceKind

PIECE: Final = 50
"""Objects that are decoded at once."""
_BEGIN: Final = b'"items":['
_END: Final = b'],"kind":"'
_NEAR: Final = 4096
"""Within so many bytes of its beginning and its end everything of a list stands that is no object of it."""

_decoder = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Page:
    """One answer to a listing: its version, how to ask for what follows ("" after the last page), and its objects, to be read once."""

    version: str
    following: str
    objects: Iterator[Object]

    def listings(self) -> Iterator[Listing]:
        """Yield the objects in small listings of the page's version; at least one.

        Raises:
            ValueError: what follows is no JSON.
        """
        piece = [*islice(self.objects, PIECE)]
        while True:
            yield Listing(piece, self.version)
            piece = [*islice(self.objects, PIECE)]
            if not piece:
                return


def read_page(kind: ResourceKind, chunks: Sequence[bytes]) -> Page:
    """Read a page. Its objects are decoded when they are asked for, and are whole objects without managedFields.

    Custom kinds are listed as `{"apiVersion":…,"items":[…],"kind":…,"metadata":{…}}`; whatever looks otherwise is decoded at once.

    Raises:
        ValueError: it is no JSON; KeyError, TypeError: it is no list.
    """
    begin = chunks[0].find(_BEGIN, 0, _NEAR) if chunks else -1
    envelope: Any = _end_of(chunks) if begin > 0 else {}
    objects: Iterable[Any]
    if "metadata" in envelope:
        objects = _one_by_one(deque(chunks), begin + len(_BEGIN))
    else:
        envelope = json.loads(b"".join(chunks))
        objects = envelope.get("items") or ()
    own = {"apiVersion": kind.api_version, "kind": kind.kind}  # which objects of the core kinds come without
    metadata = envelope["metadata"]
    return Page(metadata["resourceVersion"], metadata.get("continue") or "", (without_managers({**own, **obj}) for obj in objects))


def _end_of(chunks: Sequence[bytes]) -> Any:
    """Return what a list says after its objects; {} where that is not as it should be."""
    last = b""
    for chunk in reversed(chunks):
        last = chunk + last
        if len(last) >= _NEAR:
            break
    at = last.rfind(_END)
    try:
        return json.loads(b"{" + last[at + 2 :]) if at >= 0 else {}
    except ValueError:
        return {}


def _one_by_one(chunks: deque[bytes], begin: int) -> Iterator[Any]:
    """Decode the objects of a list that begins at an offset of the first chunk, and let go of each chunk when it is read.

    An object that is not there to its end is tried again when there is twice as much of it.
    """
    text = codecs.getincrementaldecoder("utf-8")()
    rest, at, wanted = text.decode(chunks.popleft()[begin:]), 0, 0
    while True:
        found = _next(rest, at) if len(rest) - at >= wanted or not chunks else None
        if found is not None:
            obj, after, follows = found
            if follows not in ",]":
                raise ValueError(f"an object of the list is followed by {follows!r}")
            yield obj
            wanted, at = 0, after + (follows == ",")
        elif rest.startswith("]", at):
            return
        elif not chunks:
            raise ValueError("the list ends within an object")
        else:
            wanted = max(wanted, 2 * (len(rest) - at))
            rest, at = rest[at:] + text.decode(chunks.popleft()), 0


def _next(text: str, at: int) -> tuple[Any, int, str] | None:
    """Return the value at an offset, the offset after it, and what is there; None where the text ends before."""
    try:
        value, after = _decoder.raw_decode(text, at)
        return value, after, text[after]
    except (json.JSONDecodeError, IndexError):
        return None
