"""The golden worker Jobs on a real API server, in a namespace that takes restricted pods alone."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.server_fixture import REAL
from tests.reconcile.worker_job_cases import CASES, golden

pytestmark = REAL
RESTRICTED = "restricted-pods"
JOBS = f"/apis/batch/v1/namespaces/{RESTRICTED}/jobs"
PODS = f"/api/v1/namespaces/{RESTRICTED}/pods"
DRY = "?dryRun=All&fieldValidation=Strict"


@pytest.fixture(scope="module")
def restricted(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A namespace whose pod security is restricted: others are refused, and a Job that would make them is warned of."""
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    control_plane.install({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RESTRICTED, "labels": labels}})
    yield control_plane
    control_plane.ask("DELETE", f"/api/v1/namespaces/{RESTRICTED}").close()


def warnings_of(plane: ControlPlane, path: str, obj: dict[str, Any]) -> list[str]:
    """Send an object as a dry run and return what the server warns of."""
    try:
        with plane.ask("POST", path + DRY, obj) as answer:
            return answer.headers.get_all("Warning") or []
    except HTTPError as error:
        raise AssertionError(json.load(error)["message"]) from error


def test_every_golden_is_taken(restricted: ControlPlane) -> None:
    """The server takes each golden Job, and the pods of it, without a warning."""
    for name in CASES:
        job = golden(name)
        job["metadata"]["namespace"] = RESTRICTED
        assert warnings_of(restricted, JOBS, job) == [], name
        template = job["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "worker-", **template["metadata"]}, "spec": template["spec"]}
        assert warnings_of(restricted, PODS, pod) == [], name


def test_the_namespace_is_restricted(restricted: ControlPlane) -> None:
    """A pod that may run as root is refused there: the test above would show it."""
    job = golden("cluster")
    job["metadata"]["namespace"] = RESTRICTED
    del job["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"]
    (warning,) = warnings_of(restricted, JOBS, job)
    assert "runAsNonRoot" in warning
