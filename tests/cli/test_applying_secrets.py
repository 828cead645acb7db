"""A Secret that is applied: its values are in its data, and in no annotation, whoever wrote that before."""

import base64
import json
from typing import Any

import pytest

from arena.cli.applying import LAST_APPLIED
from reconcile.cluster.port import SECRET
from tests.e2e.installation import Namespace

pytestmark = pytest.mark.e2e
VALUE, OTHER = "planted-7f3a", "planted-b20c"


def applied(namespace: Namespace, **fields: Any) -> str:
    """Apply the Secret with these fields, and return what became of it."""
    done = namespace.arena("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, **fields}))
    assert done.code == 0, done.err
    return done.out.split()[-1]


def data_of(namespace: Namespace) -> dict[str, str]:
    """Return the Secret's values, read."""
    return {key: base64.b64decode(value).decode() for key, value in namespace.client.get(SECRET, namespace.name, "keys")["data"].items()}


def test_values_are_in_no_annotation(namespace: Namespace) -> None:
    """What `get -o yaml` prints has each value once, encoded, as data; a file that is applied again changes nothing, and a key that is gone goes."""
    encoded = base64.b64encode(OTHER.encode()).decode()
    both = {"stringData": {"a": VALUE}, "data": {"b": encoded}}
    assert [applied(namespace, **both), applied(namespace, **both)] == ["created", "unchanged"]
    printed = namespace.arena("get", "secret", "keys", "-o", "yaml").out
    assert (VALUE in printed, OTHER in printed, printed.count(encoded)) == (False, False, 1)
    recorded = json.loads(namespace.client.get(SECRET, namespace.name, "keys")["metadata"]["annotations"][LAST_APPLIED])
    assert recorded["data"] == {"a": "", "b": ""}
    assert applied(namespace, stringData={"a": OTHER}) == "configured"
    assert data_of(namespace) == {"a": OTHER}


def test_values_that_kubectl_recorded_are_taken_out(namespace: Namespace) -> None:
    """What kubectl applied has the file in the annotation; the next `arena apply` cleans that, keeps what others added, and removes what the file lost."""
    last = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"a": VALUE, "b": OTHER}}
    metadata = {"name": "keys", "namespace": namespace.name, "annotations": {LAST_APPLIED: json.dumps(last)}}
    namespace.client.create(SECRET, namespace.name, {**last, "metadata": metadata, "type": "example.com/key"})
    namespace.client.patch(SECRET, namespace.name, "keys", {"data": {"theirs": base64.b64encode(b"x").decode()}})
    assert applied(namespace, stringData={"a": VALUE}) == "configured"
    assert data_of(namespace) == {"a": VALUE, "theirs": "x"}
    assert VALUE not in json.dumps(namespace.client.get(SECRET, namespace.name, "keys"))


@pytest.mark.parametrize("data", [{"a": [VALUE]}, [[VALUE]], VALUE], ids=["a list for a value", "a list", "a text"])
def test_a_secret_that_is_none_is_refused_without_its_value(namespace: Namespace, data: object) -> None:
    """A value that is no text is refused by its field, and not repeated."""
    broken = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": data}
    done = namespace.arena("apply", "-f", "-", text=json.dumps(broken))
    assert done.code != 0
    assert "stringData" in done.err
    assert VALUE not in done.err
