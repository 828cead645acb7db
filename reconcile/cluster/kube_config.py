"""Kubeconfigs, read by the client library: it knows every way to sign in that kubectl knows.

The only module that imports the library, and imported only by who has a kubeconfig: it costs 30 MB and a quarter of a second.
"""

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.kube_config import KubeConfigLoader, KubeConfigMerger, load_kube_config

from reconcile.cluster.kube_access import Credentials, Way
from reconcile.errors import Unauthorized

_FAILURES = (ConfigException, OSError, yaml.YAMLError, TypeError, AttributeError, KeyError, ValueError)


def check(path: str, context: str | None) -> None:
    """Check that the files can be read and have the context, its cluster and its user. Runs no plugin and asks nobody.

    Raises:
        Unauthorized: they cannot, or have not.
    """
    try:
        KubeConfigLoader(config_dict=KubeConfigMerger(path).config, active_context=context)  # type: ignore[no-untyped-call]
    except _FAILURES as error:
        raise _unreadable(path, error) from error


async def read(path: str, context: str | None) -> Credentials:
    """Return the credentials of a context (see `by_kubeconfig`).

    Raises:
        Unauthorized: there are none, or they cannot be read.
    """
    configuration = Configuration()
    try:
        await load_kube_config(path, context, configuration, persist_config=False)  # type: ignore[no-untyped-call]
    except _FAILURES as error:
        raise _unreadable(path, error) from error

    async def authorization() -> str:
        try:
            token = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        except _FAILURES as error:
            raise Unauthorized(f"cannot renew the token of kubeconfig '{path}': {error}") from error
        return (token or "").strip()

    return Credentials(_way(configuration), authorization)


def _unreadable(path: str, error: Exception) -> Unauthorized:
    is_told = isinstance(error, (ConfigException, OSError, yaml.YAMLError))  # anything else is what the library stumbles over
    cause = str(error) if is_told else f"it is not laid out as one ({error})"
    return Unauthorized(f"cannot read kubeconfig '{path}': {cause}", hint="`kubectl config view` shows what is in it")


def _way(configuration: Configuration) -> Way:
    return Way(
        configuration.host.rstrip("/"),
        authorities_file=configuration.ssl_ca_cert,
        certificate_file=configuration.cert_file,
        key_file=configuration.key_file,
        server_name=configuration.tls_server_name,
        is_verified=bool(configuration.verify_ssl),
        proxy=configuration.proxy,
    )
