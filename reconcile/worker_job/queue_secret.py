"""The Secret that holds a run's own address of the queue: pure, no I/O.

It is owned by the run, and it is the one place where the password of the run's user is kept.
"""

import base64
from typing import Final

from reconcile.cluster.port import ARENA_RUN, SECRET, Object
from reconcile.kinds.names import RUN_LABEL
from reconcile.naming import MAX_LABEL, MAX_RUN_NAME, fit, label
from reconcile.worker_job.pods import SecretValue

URL_KEY: Final = "url"


def queue_secret_value(run: str) -> SecretValue:
    """Return where the workers of a run find its address: a name as short as the worker Job's, whatever a hand-written run is called."""
    return SecretValue(f"{label(run, MAX_RUN_NAME)}-queue", URL_KEY)


def queue_secret(run: Object, url: str) -> Object:
    """Return the Secret of a run, with its address."""
    metadata = run["metadata"]
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {
            "name": queue_secret_value(metadata["name"]).name,
            "namespace": metadata["namespace"],
            "labels": {"app.kubernetes.io/name": "arena-worker", RUN_LABEL: fit(metadata["name"], MAX_LABEL)},
            "ownerReferences": [owner_reference(metadata["name"], metadata["uid"])],
        },
        "data": address_data(url),
    }


def address_data(url: str) -> dict[str, str]:
    """Return an address as a Secret's data."""
    return {URL_KEY: base64.b64encode(url.encode()).decode()}


def owner_reference(run: str, uid: str) -> dict[str, str | bool]:
    """Return the reference by which an object belongs to a run, and goes with it."""
    return {
        "apiVersion": ARENA_RUN.api_version,
        "kind": ARENA_RUN.kind,
        "name": run,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
