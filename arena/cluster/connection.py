"""How a process of a cluster finds its API server: from inside a pod, or by a kubeconfig."""

from collections.abc import Mapping
from pathlib import Path

from arena import settings
from arena.errors import UsageError
from reconcile.cluster.kube_access import Access, by_kubeconfig, in_cluster
from reconcile.errors import Unauthorized


def access_of(kubeconfig: str, context: str, environment: Mapping[str, str]) -> Access:
    """Return the way to the API server: by a kubeconfig where one is named, otherwise as the pod that this process is in.

    Raises:
        UsageError: there is neither, or the kubeconfig cannot be used.
    """
    if kubeconfig:
        files = [Path(name).expanduser() for name in kubeconfig.split(":") if name]
        if not any(file.is_file() for file in files):
            raise UsageError(f"cannot read kubeconfig '{kubeconfig}': there is no such file", hint="name it with --kubeconfig (KUBECONFIG)")
        _check(kubeconfig, context or None)
        return by_kubeconfig(kubeconfig, context or None)
    host, port = environment.get(settings.SERVICE_HOST, ""), environment.get(settings.SERVICE_PORT, "")
    if not host or not port:
        raise UsageError(
            "cannot find the API server: this process is in no pod of a cluster, and no kubeconfig is named",
            hint="name one with --kubeconfig (KUBECONFIG), or start the process in a pod",
        )
    return in_cluster(host, port)


def _check(kubeconfig: str, context: str | None) -> None:
    from reconcile.cluster.kube_config import check  # noqa: PLC0415 - the client library, 30 MB that a pod does without

    try:
        check(kubeconfig, context)
    except Unauthorized as error:
        raise UsageError(str(error), hint=error.hint) from error
