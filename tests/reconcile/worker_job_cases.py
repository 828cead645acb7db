"""Worker Jobs that tests look at, and the golden file of each. `python -m tests.reconcile.worker_job_cases` writes the files anew."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from reconcile.kinds.job_pods import PodOverrides
from reconcile.worker_job import ClusterPods, SecretValue, WorkerSpec, worker_job
from reconcile.worker_job.queue_secret import queue_secret_value

GOLDENS = Path(__file__).parent / "goldens" / "worker_job"
LOCAL = WorkerSpec(
    run="eval-x7k2p",
    namespace="arena",
    uid="6f1c7a3e-0f5b-4b6a-9d0e-2f7f6f0c9a11",
    workers=3,
    image="registry.example.com/arena:1.2.3",
    content_path="arena/sources/src/.arena/versions/0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
    output_path="arena/runs/eval-x7k2p",
    subtree="default/arena",
    verbose=False,
    ttl_s=86400,
    queue=queue_secret_value("eval-x7k2p"),
)
PODS = ClusterPods(installation="2c9f", claim="arena-content")
CLUSTER = replace(LOCAL, pods=PODS)
EVERYTHING: Mapping[str, Any] = {
    "serviceAccountName": "evaluator",
    "labels": {"team": "support", "app.kubernetes.io/name": "theirs"},
    "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
    "nodeSelector": {"pool": "batch"},
    "tolerations": [
        {"key": "batch", "operator": "Exists", "effect": "NoSchedule"},
        {"operator": "Exists", "tolerationSeconds": 60, "effect": "NoExecute"},
    ],
    "priorityClassName": "system-node-critical",
    "imagePullSecrets": [{"name": "registry"}],
    "extraEnv": [
        {"name": "HTTPS_PROXY", "value": "http://proxy:3128"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ],
    "extraEnvFrom": [{"prefix": "TEAM_", "secretRef": {"name": "team", "optional": True}}, {"configMapRef": {"name": "settings"}}],
    "extraVolumes": [
        {"name": "vault", "csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": True, "volumeAttributes": {"secretProviderClass": "team"}}},
        {"name": "roots", "configMap": {"name": "roots"}},
    ],
    "extraVolumeMounts": [
        {"name": "vault", "mountPath": "/mnt/secrets", "readOnly": True},
        {"name": "roots", "mountPath": "/etc/ssl/team.pem", "subPath": "ca.pem", "readOnly": True},
    ],
}
KEYS = {"ARENA_CREDENTIAL_0": SecretValue("openai", "OPENAI_API_KEY"), "ARENA_CREDENTIAL_2": SecretValue("judge", "api-key")}
VARIABLES: Mapping[str, Any] = {
    "extraEnv": [
        {"name": "TEAM", "value": "support"},
        {"name": "OPENAI_API_KEY", "valueFrom": {"secretKeyRef": {"name": "openai", "key": "api-key"}}},
        {"name": "REGION", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "region", "optional": True}}},
    ],
    "extraEnvFrom": [{"prefix": "TEAM_", "secretRef": {"name": "team", "optional": True}}, {"configMapRef": {"name": "settings"}}],
}
CASES: Mapping[str, WorkerSpec] = {
    "local": LOCAL,
    "local-shared-queue": replace(LOCAL, queue=None),
    "local-verbose": replace(LOCAL, verbose=True),
    "cluster": CLUSTER,
    "cluster-before-1.33": replace(CLUSTER, pods=replace(PODS, backoff_by_index=False)),
    "cluster-credentials": replace(CLUSTER, credentials=KEYS),
    "cluster-long-name": replace(CLUSTER, run="a-run.written.by-hand." + "with-a-very-long-name-" * 3 + "x", workers=1000),
    "cluster-overrides": replace(CLUSTER, overrides=PodOverrides.model_validate(EVERYTHING)),
    "local-credentials": replace(LOCAL, credentials=KEYS, overrides=PodOverrides.model_validate(VARIABLES)),
}


def golden(name: str) -> dict[str, Any]:
    """Return the Job that is written down for a case."""
    job: dict[str, Any] = yaml.safe_load((GOLDENS / f"{name}.yaml").read_text())
    return job


if __name__ == "__main__":
    for case, spec in CASES.items():
        (GOLDENS / f"{case}.yaml").write_text(yaml.safe_dump(worker_job(spec), sort_keys=False, width=120))
