"""AdmissionReview v1 read and answered, without a network."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hooks.admission_review import MAX_CAUSES, MAX_WARNING, MAX_WARNINGS, answer, fitted, parse
from hooks.errors import ReviewUnreadable
from reconcile.kinds.names import API_VERSION, GROUP, VERSION

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
GOOD = {"sourceRef": {"name": "src"}}
BAD = {**GOOD, "arenaFile": "/etc/passwd"}
RUN = {"jobRef": {"name": "j"}, "template": GOOD}
PINNED = {"phase": "Running", "plan": {"digest": "a", "items": 1}}


def an_object(spec: Any, kind: str = "ArenaJob", **rest: Any) -> dict[str, Any]:
    """Return an object as an API server sends it."""
    metadata = {"name": "x", "namespace": "arena", "uid": "u", "managedFields": [], **rest.pop("metadata", {})}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec, **rest}


def a_review(new: Any, old: Any = None, *, kind: str = "ArenaJob", **request: Any) -> dict[str, Any]:
    """Return a review as an API server sends it."""
    asked = {
        "uid": UID,
        "kind": {"group": GROUP, "version": VERSION, "kind": kind},
        "resource": {"group": GROUP, "version": VERSION, "resource": f"{kind.lower()}s"},
        "requestKind": {"group": GROUP, "version": VERSION, "kind": kind},
        "name": "x",
        "namespace": "arena",
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "admin", "groups": ["system:masters"]},
        "object": new,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **request,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


def answered(review: Any) -> dict[str, Any]:
    """Return the response to a review."""
    given_back = answer(parse(json.dumps(review).encode()))
    assert (given_back["apiVersion"], given_back["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert given_back["response"]["uid"] == UID
    response: dict[str, Any] = given_back["response"]
    return response


@pytest.mark.parametrize(
    "review",
    [
        pytest.param(a_review(an_object(GOOD)), id="a good object"),
        pytest.param(a_review(an_object(GOOD), dryRun=True), id="a dry run"),
        pytest.param(a_review(None, an_object(BAD), operation="DELETE"), id="deleting one that breaks a rule"),
        pytest.param(a_review(None, operation="CONNECT", subResource="proxy"), id="a connection"),
        pytest.param(a_review(an_object(BAD), subResource="scale"), id="another subresource"),
        pytest.param(a_review(an_object(BAD), kind="Deployment"), id="a kind that is not ours"),
        pytest.param(a_review(an_object(BAD, metadata={"labels": {"a": "b"}}), an_object(BAD)), id="a label of one that breaks a rule"),
        pytest.param(
            a_review(an_object(BAD, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), an_object(BAD, metadata={"finalizers": ["a/b"]})),
            id="the last finalizer of one that breaks a rule",
        ),
        pytest.param(
            a_review(an_object(BAD, status={"activeCount": 1}), an_object(BAD), subResource="status"), id="the status of one whose spec breaks a rule"
        ),
        pytest.param(a_review(an_object({**GOOD, "fromTheFuture": 1})), id="a field that only a newer schema knows"),
    ],
)
def test_allowed(review: Any) -> None:
    """What the kinds' own checks have nothing to say about is allowed."""
    assert answered(review)["allowed"] is True


def test_a_kind_of_the_same_name_in_another_group() -> None:
    """Kinds are told apart by group and version: a Provider of somebody else is nothing of ours."""
    review = a_review(an_object(BAD))
    for other in ({"group": "example.com"}, {"version": "v2"}):
        strange = copy.deepcopy(review)
        strange["request"]["kind"] |= other
        assert answered(strange) == {"uid": UID, "allowed": True}


def test_denied() -> None:
    """A denial is the Status of an invalid object, as the API server itself writes it: 422, and each field in a cause."""
    status = answered(a_review(an_object(BAD)))["status"]
    assert (status["status"], status["code"], status["reason"]) == ("Failure", 422, "Invalid")
    assert status["message"].startswith(f'ArenaJob.{GROUP} "x" is invalid: spec.arenaFile: Invalid value: ')
    assert status["details"]["group"] == GROUP
    assert [(cause["field"], cause["reason"]) for cause in status["details"]["causes"]] == [("spec.arenaFile", "FieldValueInvalid")]


@pytest.mark.parametrize(
    ("review", "field"),
    [
        pytest.param(a_review(an_object({**BAD, "trials": 3}), an_object(BAD)), "spec.arenaFile", id="a new spec that breaks the old one's rule"),
        pytest.param(a_review(an_object({**RUN, "template": BAD}, "ArenaRun"), kind="ArenaRun"), "spec.template.arenaFile", id="a run"),
        pytest.param(
            a_review(an_object({"hosted": {}, "deploy": {"allowedRefs": ["[a"]}}, "ArenaProject"), kind="ArenaProject"),
            "spec.deploy.allowedRefs[0]",
            id="a project",
        ),
        pytest.param(
            a_review(
                an_object(RUN, "ArenaRun", status={"phase": "Running"}),
                an_object(RUN, "ArenaRun", status=PINNED),
                kind="ArenaRun",
                subResource="status",
            ),
            "",
            id="a status that drops what is pinned",
        ),
        pytest.param(
            a_review(
                an_object({**GOOD, "providers": {"default": [{"providerRef": {"name": "p", "namespace": "other"}}]}}, metadata={"namespace": None})
            ),
            "spec.providers.default[0].providerRef.namespace",
            id="an object that leaves its namespace to the request",
        ),
    ],
)
def test_denied_by_field(review: Any, field: str) -> None:
    """A denial names the field, in the object as its writer sees it."""
    response = answered(review)
    assert response["allowed"] is False
    assert [cause["field"] for cause in response["status"]["details"]["causes"]] == [field]


def test_a_generated_name() -> None:
    """An object that has no name yet is called by the beginning of its name."""
    review = a_review(an_object(BAD, metadata={"name": None, "generateName": "x-"}))
    assert answered(review)["status"]["details"]["name"] == "x-"


def test_a_denial_is_bounded() -> None:
    """Of many mistakes twenty are told, each within a kilobyte and on one line, and how many more there are."""
    entries: dict[str, Any] = {f"p{number}\n{'x' * 5000}": {} for number in range(50)}
    status = answered(a_review(an_object({**GOOD, "providers": {"default": entries}})))["status"]
    assert len(status["details"]["causes"]) <= MAX_CAUSES
    assert len(json.dumps(status)) < 64 * 1024
    assert "\n" not in status["message"]


def test_warnings_of_what_has_no_effect() -> None:
    """A field that is taken and not carried out is told to its writer, also when it is only tried."""
    response = answered(a_review(an_object({**GOOD, "serviceGroup": "default"}), dryRun=True))
    assert response == {"uid": UID, "allowed": True, "warnings": ["spec.serviceGroup is not supported yet (NotSupported)"]}


@pytest.mark.parametrize(
    ("warnings", "last"),
    [
        pytest.param(["a"], "a", id="one"),
        pytest.param(["a\nb\x1b"], "a?b?", id="control characters, for which an API server drops a warning"),
        pytest.param(["x" * 300], "x" * 255 + "…", id="too long"),
        pytest.param(["é" * 300], "é" * 255 + "…", id="characters, not bytes"),
        pytest.param(["y" * 250] * 100, "and 84 more warnings", id="too many"),
    ],
)
def test_warnings_fit(warnings: list[str], last: str) -> None:
    """Warnings keep to what an API server passes on whole: 256 characters each, 4096 together."""
    kept = fitted(warnings)
    assert kept[-1] == last
    assert max(map(len, kept)) <= MAX_WARNING
    assert sum(map(len, kept)) <= MAX_WARNINGS


def without(key: str) -> dict[str, Any]:
    """Return a review that lacks a key of its request."""
    review = a_review(an_object(GOOD))
    del review["request"][key]
    return review


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b"[1]", id="no object"),
        pytest.param(b"[" * 100_000, id="nested too deeply"),
        pytest.param(b'{"a":' + b"9" * 5000 + b"}", id="a number too long to read"),
        pytest.param(json.dumps({**a_review(an_object(GOOD)), "apiVersion": "admission.k8s.io/v1beta1"}).encode(), id="another version"),
        pytest.param(json.dumps({**a_review(an_object(GOOD)), "kind": "ConversionReview"}).encode(), id="another kind"),
        pytest.param(json.dumps({**a_review(an_object(GOOD)), "request": None}).encode(), id="an answer"),
        pytest.param(json.dumps(without("uid")).encode(), id="no uid"),
        pytest.param(json.dumps(a_review("text")).encode(), id="an object that is none"),
        pytest.param(json.dumps(a_review(an_object(GOOD), operation="UPDATE")).encode(), id="an update of nothing"),
    ],
)
def test_unreadable(body: bytes) -> None:
    """What is no AdmissionReview of v1, or lacks what is to be checked, cannot be answered."""
    with pytest.raises(ReviewUnreadable, match="cannot read the admission review: "):
        parse(body)


def test_an_object_nested_too_deeply() -> None:
    """An object that JSON can hold and no check can follow is denied."""
    spec: Any = {}
    for _ in range(400):
        spec = {"a": spec}
    response = answered(a_review(an_object({**GOOD, "providers": {"default": spec}})))
    assert response["allowed"] is False


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PLACES = st.sampled_from(["uid", "kind", "operation", "object", "oldObject", "namespace", "subResource", "name", "metadata", "spec", "status"])


@given(place=PLACES, value=JSON_VALUES, kind=st.sampled_from(["ArenaJob", "ArenaRun", "ArenaProject", "Workspace"]), is_update=st.booleans())
@settings(max_examples=60)
def test_nothing_makes_it_fail(place: str, value: Any, kind: str, is_update: bool) -> None:  # noqa: FBT001 - hypothesis passes by keyword
    """Whatever stands anywhere in a review, it is answered or said to be unreadable."""
    new = an_object(RUN if kind == "ArenaRun" else GOOD, kind)
    review = a_review(new, copy.deepcopy(new) if is_update else None, kind=kind)
    (new if place in ("metadata", "spec", "status") else review["request"])[place] = value
    try:
        response = answer(parse(json.dumps(review).encode()))["response"]
    except ReviewUnreadable:
        return
    assert isinstance(response["allowed"], bool)
