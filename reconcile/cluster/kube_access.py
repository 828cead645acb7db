"""How a process reaches its API server: from inside a pod, or by a kubeconfig.

Owns what a connection needs to know, and the reading of a pod's own credentials. Must not read the environment: callers say where things are.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from reconcile.errors import Unauthorized

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet keeps a pod's token and the authority of its API server."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a connection is made; equal ways can share their sockets. `url` has no slash at its end.

    `authorities`: whose certificates count, as PEM; `authorities_file`: the same in a file. With neither, the system's. `certificate_file` and
    `key_file`: the certificate that we show. `server_name`: which name the server's must bear, where that is not its host's.
    """

    url: str
    authorities: str | None = None
    authorities_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    is_verified: bool = True
    proxy: str | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """The way to an API server, and the `authorization` header of a request as it is now, "" for none.

    Raises:
        Unauthorized: by `authorization`: what it is made from cannot be read any more.
    """

    way: Way
    authorization: Callable[[], Awaitable[str]]


Access = Callable[[], Awaitable[Credentials]]
"""Reads the credentials as they are now. It is called at the start, and again when the server no longer takes what it got.

Raises:
    Unauthorized: there are none, or they cannot be read.
"""


def in_cluster(host: str, port: str, mount: Path = SERVICE_ACCOUNT) -> Access:
    """Return the access of a pod. The kubelet exchanges its token, so each request reads it: 20 µs, from memory."""

    async def authorization() -> str:
        return f"Bearer {_mounted(mount, 'token')}"

    async def load() -> Credentials:
        if not host or not port:
            raise Unauthorized("cannot reach the API server: its host and port are not known", hint="outside a cluster, give a kubeconfig")
        await authorization()
        url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        return Credentials(Way(url, authorities=_mounted(mount, "ca.crt")), authorization)

    return load


def by_kubeconfig(path: str, context: str | None = None) -> Access:
    """Return the access that a kubeconfig describes; `path` may be several files joined as in KUBECONFIG, `context` one of theirs.

    Token, token file, client certificate, exec plugin and OIDC are understood, and read or run again when the server refuses what they gave.
    Nothing is written back into the file.
    """

    async def load() -> Credentials:
        from reconcile.cluster.kube_config import read  # noqa: PLC0415 - the client library, 30 MB that a pod does without

        return await read(path, context)

    return load


def _mounted(mount: Path, name: str) -> str:
    try:
        text = (mount / name).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise _no_account(mount, str(error)) from error
    if not text:
        raise _no_account(mount, f"{name} is empty")
    return text


def _no_account(mount: Path, cause: str) -> Unauthorized:
    return Unauthorized(f"cannot read service account '{mount}': {cause}", hint="mount the service account's token into the pod")
