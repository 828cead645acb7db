"""Pages of listings as API servers write them, in whatever pieces they arrive."""

import json
from typing import Any

import pytest

from reconcile.cluster.kube_pages import PIECE, read_page
from reconcile.cluster.port import ARENA_RUN, CONFIG_MAP

ENVELOPE = {"kind": "ArenaRunList", "metadata": {"continue": "more", "resourceVersion": "7"}}


def text_of(items: list[Any], **metadata: str) -> bytes:
    """Return a list of a custom kind."""
    whole = {"apiVersion": ARENA_RUN.api_version, "items": items, **ENVELOPE, "metadata": {**ENVELOPE["metadata"], **metadata}}  # type: ignore[dict-item]
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()


def run(name: str, **spec: Any) -> dict[str, Any]:
    """Return a run as it is stored."""
    metadata = {"name": name, "namespace": "ns", "managedFields": [{"fieldsV1": {"f:spec": {}}}]}
    return {"apiVersion": ARENA_RUN.api_version, "kind": "ArenaRun", "metadata": metadata, "spec": spec}


def names(chunks: list[bytes]) -> list[str]:
    """Return the names of a page's objects."""
    return [obj["metadata"]["name"] for listing in read_page(ARENA_RUN, chunks).listings() for obj in listing.items]


@pytest.mark.parametrize("size", [1, 7, 64, 300, 100_000])
def test_pieces_of_any_size(size: int) -> None:
    """A page is the same however it is cut, also within a letter, and what is in an object is never taken for the list's end."""
    runs = [run(f"r{number}", text='é],"kind":"x","metadata":{}}', list=[[1], {"a": []}], long="x" * (number * 40)) for number in range(20)]
    text = text_of(runs)
    page = read_page(ARENA_RUN, [text[at : at + size] for at in range(0, len(text), size)])
    found = [obj for listing in page.listings() for obj in listing.items]
    assert (page.version, page.following) == ("7", "more")
    assert [obj["spec"] for obj in found] == [obj["spec"] for obj in runs]
    assert all("managedFields" not in obj["metadata"] for obj in found)


@pytest.mark.parametrize("count", [0, 1, PIECE, PIECE + 1])
def test_listings_of_a_page(count: int) -> None:
    """A page is told in small listings of its version, at least one of them."""
    listings = [*read_page(ARENA_RUN, [text_of([run(f"r{number}") for number in range(count)])]).listings()]
    assert [len(listing.items) for listing in listings] == ([PIECE] * (count // PIECE) + ([count % PIECE] if count % PIECE or not count else []))
    assert {listing.resource_version for listing in listings} == {"7"}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "3"}, "items": [{"metadata": {"name": "a"}}]}, id="core"
        ),
        pytest.param({"items": [{"metadata": {"name": "a"}}], "metadata": {"resourceVersion": "3"}}, id="no kind"),
    ],
)
def test_lists_of_another_shape(text: dict[str, Any]) -> None:
    """A list whose metadata stands elsewhere, as those of the core kinds, is read as well; its objects get kind and version."""
    for separators in ((",", ":"), (", ", ": ")):
        page = read_page(CONFIG_MAP, [json.dumps(text, separators=separators).encode()])
        (listing,) = page.listings()
        assert (page.version, page.following) == ("3", "")
        assert listing.items == [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]


@pytest.mark.parametrize("broken", [b'{"apiVersion":"x","items":[{"a":1}', b'{"apiVersion":"x","items":[{"a":1} {"b":2}', b"<html>", b""])
def test_what_is_no_list(broken: bytes) -> None:
    """A text that is no list of objects is an error, however far it seems one."""
    for end in (b"", b'],"kind":"ArenaRunList","metadata":{"resourceVersion":"7"}}' if b"b" in broken else b""):
        with pytest.raises(ValueError):  # noqa: PT011 - whatever the decoder says
            names([broken + end])
