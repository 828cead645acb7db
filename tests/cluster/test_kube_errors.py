"""What an API server's refusals mean to the port."""

import json
from typing import Any

import pytest

from reconcile.cluster.kube_errors import About, error_of
from reconcile.cluster.port import ARENA_JOB
from reconcile.errors import (
    AlreadyExists,
    ClusterError,
    Conflict,
    FieldError,
    Forbidden,
    Gone,
    Invalid,
    KindNotServed,
    NotFound,
    ObjectTooLarge,
    StoreUnavailable,
    Unauthorized,
)

ABOUT = About("create", ARENA_JOB, "ns", "a")


def status(reason: str, message: str = "no", **details: Any) -> bytes:
    """Return a Status as the server sends it."""
    return json.dumps({"kind": "Status", "status": "Failure", "reason": reason, "message": message, "details": details}).encode()


@pytest.mark.parametrize(
    ("code", "body", "expected", "words"),
    [
        pytest.param(404, status("NotFound", name="a", kind="arenajobs"), NotFound, "cannot find ArenaJob 'ns/a'", id="no object"),
        pytest.param(404, status("NotFound", name="ns", kind="namespaces"), NotFound, "cannot find Namespace 'ns'", id="no namespace"),
        pytest.param(404, b"404 page not found\n", KindNotServed, "does not serve arenajobs", id="no such kind"),
        pytest.param(409, status("AlreadyExists"), AlreadyExists, "cannot create ArenaJob 'ns/a'", id="taken"),
        pytest.param(409, status("Conflict", 'Operation cannot be fulfilled on arenajobs "a": changed'), Conflict, "'ns/a': changed", id="changed"),
        pytest.param(410, status("Expired", "too old"), Gone, "too old", id="too old"),
        pytest.param(401, status("Unauthorized", "Unauthorized"), Unauthorized, "cannot create ArenaJob 'ns/a': Unauthorized", id="who are you"),
        pytest.param(403, status("Forbidden", 'User "u" cannot'), Forbidden, 'User "u" cannot', id="not you"),
        pytest.param(413, status("RequestEntityTooLarge", "limit is 3145728"), ObjectTooLarge, "limit is 3145728", id="body too large"),
        pytest.param(500, status("", "etcdserver: request is too large"), ObjectTooLarge, "too large", id="too large for etcd"),
        pytest.param(504, status("Timeout", "took too long"), StoreUnavailable, "took too long", id="timeout"),
        pytest.param(502, b"<html>bad gateway</html>", StoreUnavailable, "bad gateway", id="a proxy"),
        pytest.param(500, b"", StoreUnavailable, "HTTP 500", id="nothing said"),
        pytest.param(405, b"[1]", StoreUnavailable, "1", id="no Status"),
    ],
)
def test_an_answer_is_an_error_of_the_port(code: int, body: bytes, expected: type[ClusterError], words: str) -> None:
    """Each refusal is the narrowest error, which names the object and gives the server's words."""
    error = error_of(ABOUT, code, body)
    assert type(error) is expected
    assert words in error.message


CAUSES = [
    {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.sourceRef"},
    {"reason": "FieldValueInvalid", "message": "must be valid", "field": "spec.type"},
    {"reason": "FieldValueInvalid", "message": "must be valid", "field": "spec.type"},
    {"reason": "FieldValueInvalid", "message": "some validation rules were not checked", "field": "<nil>"},
]
STRICT = 'ArenaJob in version "v1alpha1" cannot be handled: strict decoding error: unknown field "spec.trails", duplicate field "spec.x"'


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        pytest.param(
            422,
            status("Invalid", causes=CAUSES),
            [FieldError("spec.sourceRef", "Required value", "FieldValueRequired"), FieldError("spec.type", "must be valid")],
            id="causes, each once",
        ),
        pytest.param(
            400,
            status("BadRequest", STRICT),
            [FieldError("spec.trails", 'unknown field "spec.trails"'), FieldError("spec.x", 'duplicate field "spec.x"')],
            id="strange fields",
        ),
        pytest.param(
            422,
            status(
                "Invalid", f'is invalid: patch: Invalid value: "{{unknown field "spec.y"}}": {STRICT}', causes=[{"field": "patch", "message": STRICT}]
            ),
            [FieldError("spec.trails", 'unknown field "spec.trails"'), FieldError("spec.x", 'duplicate field "spec.x"')],
            id="strange fields of a patch",
        ),
        pytest.param(400, status("BadRequest", "no JSON"), [FieldError("", "no JSON")], id="only a message"),
    ],
)
def test_a_refused_object_names_its_fields(code: int, body: bytes, expected: list[FieldError]) -> None:
    """What is wrong is told field by field, as far as the server tells it."""
    error = error_of(ABOUT, code, body)
    assert isinstance(error, Invalid)
    assert list(error.errors) == expected


def test_an_endless_message_is_cut() -> None:
    """A message has at most 1 KiB, so that it fits a condition."""
    assert len(error_of(ABOUT, 500, b"x" * 100_000).message) < 1200
