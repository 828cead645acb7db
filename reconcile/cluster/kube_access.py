"""How a process reaches its API server: from inside a pod, or by a kubeconfig.

Owns the reading of credentials; what a configuration is, is the client library's. Must not read the environment: callers say where things are.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.incluster_config import SERVICE_HOST_ENV_NAME, SERVICE_PORT_ENV_NAME, InClusterConfigLoader
from kubernetes.aio.config.kube_config import load_kube_config

from reconcile.errors import Unauthorized

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet keeps a pod's token and the authority of its API server."""

Access = Callable[[], Awaitable[Configuration]]
"""Reads the credentials as they are now. It is called at the start, and again when the server no longer takes what it got.

Raises:
    Unauthorized: there are none, or they cannot be read.
"""


def in_cluster(host: str, port: str, mount: Path = SERVICE_ACCOUNT) -> Access:
    """Return the access of a pod, whose token the kubelet renews: it is read again every minute."""

    async def load() -> Configuration:
        configuration = Configuration()
        environment = {SERVICE_HOST_ENV_NAME: host, SERVICE_PORT_ENV_NAME: port}
        try:
            loader = InClusterConfigLoader(str(mount / "token"), str(mount / "ca.crt"), environ=environment)  # type: ignore[no-untyped-call]
            loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
        except (ConfigException, OSError) as error:
            raise Unauthorized(f"cannot read service account '{mount}': {error}", hint="mount the service account's token into the pod") from error
        return configuration

    return load


def by_kubeconfig(path: str, context: str | None = None) -> Access:
    """Return the access that a kubeconfig describes; `path` may be several files joined as in KUBECONFIG, `context` one of theirs.

    Token, token file, client certificate, exec plugin and OIDC are understood, and read or run again when the server refuses what they gave.
    Nothing is written back into the file.
    """

    async def load() -> Configuration:
        configuration = Configuration()
        try:
            await load_kube_config(path, context, configuration, persist_config=False)  # type: ignore[no-untyped-call]
        except (ConfigException, OSError, yaml.YAMLError, TypeError, AttributeError, KeyError, ValueError) as error:
            raise Unauthorized(f"cannot read kubeconfig '{path}': {error}", hint="`kubectl config view` shows what is in it") from error
        return configuration

    return load
