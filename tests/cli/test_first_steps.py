"""What somebody's first commands meet: objects printed and applied again, a Secret described, a ref that nothing has."""

import json
import shutil
from pathlib import Path

import pytest

from arena.cli.applying import LAST_APPLIED
from reconcile.cluster.port import ARENA_JOB
from tests.e2e.bundles import bundle
from tests.e2e.installation import Namespace, until

pytestmark = pytest.mark.e2e
JOB = {"sourceRef": {"name": "support"}, "trials": 2}


def test_what_get_prints_may_be_applied(namespace: Namespace) -> None:
    """`get -o yaml` into `apply` leaves nothing behind that a later apply of the plain file would stumble over."""
    plain = json.dumps({"apiVersion": ARENA_JOB.api_version, "kind": ARENA_JOB.kind, "metadata": {"name": "eval"}, "spec": JOB})
    assert namespace.arena("apply", "-f", "-", text=plain).code == 0

    def print_and_apply() -> bool:
        """Fail, as a stale version is to, when the controller wrote a status in between."""
        printed = namespace.arena("get", "aj", "eval", "-o", "yaml").out
        return namespace.arena("apply", "-f", "-", text=printed.replace("trials: 2", "trials: 3")).code == 0

    until(print_and_apply, "an apply of what get printed")
    done = namespace.arena("apply", "-f", "-", text=plain)
    assert (done.code, done.out) == (0, f"arenajob.{ARENA_JOB.group}/eval configured\n"), done.err
    recorded = json.loads(namespace.client.get(ARENA_JOB, namespace.name, "eval")["metadata"]["annotations"][LAST_APPLIED])
    assert recorded["metadata"] == {"name": "eval", "namespace": namespace.name}


def test_a_folder_of_kustomize_may_be_applied(namespace: Namespace, tmp_path: Path) -> None:
    """`apply -k` applies what kustomize makes of a folder, and says what is wrong with one that it cannot build."""
    if shutil.which("kubectl") is None and shutil.which("kustomize") is None:
        pytest.skip("neither kubectl nor kustomize is there")
    job = {"apiVersion": ARENA_JOB.api_version, "kind": ARENA_JOB.kind, "metadata": {"name": "eval"}, "spec": JOB}
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    (tmp_path / "kustomization.yaml").write_text("resources: [job.yaml]\nnamePrefix: made-\n")
    done = namespace.arena("apply", "-k", str(tmp_path))
    assert (done.code, done.out) == (0, f"arenajob.{ARENA_JOB.group}/made-eval created\n"), done.err
    assert namespace.arena("apply", "-k", str(tmp_path / "gone")).err.startswith("error: cannot build")
    assert namespace.arena("apply").err.startswith("error: cannot apply: no file named")


def test_describe_spells_the_keys_of_a_secret_as_they_are(namespace: Namespace) -> None:
    """A key is looked up by its exact name, and its value is not shown."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "read"}, "stringData": {"ca.crt": "PEM", "apiToken": "t0p"}}
    assert namespace.arena("apply", "-f", "-", text=json.dumps(secret)).code == 0
    shown = namespace.arena("describe", "secret", "read").out
    assert "Data:\n  ca.crt:  3 bytes\n  apiToken:  3 bytes\n" in shown


def test_refusal_of_a_run_is_said_once(namespace: Namespace) -> None:
    """What a run ended with is its verdict's to say; the progress before it does not say it, too."""
    checkout = namespace.project()
    checkout.commit(bundle())
    checkout.push()
    namespace.job()
    done = namespace.arena("run", "eval", "--ref", "nope", "--wait")
    assert (done.code, (done.out + done.err).count("cannot resolve ref 'nope'")) == (2, 1), done.err
