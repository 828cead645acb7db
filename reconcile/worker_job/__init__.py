"""From a run to its worker Job: pure, no I/O.

`job` holds what every worker gets, `queue_secret` the address of the queue that it refers to, `pods` what a cluster adds to it, `overrides` what an
ArenaJob's author lays over the workers.
"""

from reconcile.worker_job.errors import OverridesRefused
from reconcile.worker_job.job import WAITING, WorkerSpec, check_overrides, worker_job, worker_job_name
from reconcile.worker_job.overrides import idle_here
from reconcile.worker_job.pods import ClusterPods, SecretValue

__all__ = ["WAITING", "ClusterPods", "OverridesRefused", "SecretValue", "WorkerSpec", "check_overrides", "idle_here", "worker_job", "worker_job_name"]
